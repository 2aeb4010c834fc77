"""Model providers, one folder each: `provider.py` writes requests, `answers.py` reads the answers."""
