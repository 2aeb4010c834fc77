"""Model providers: one module speaks to each API, one reads its answers."""
