"""Model providers, one module each."""
