"""The Chat Completions API, which many servers implement."""
