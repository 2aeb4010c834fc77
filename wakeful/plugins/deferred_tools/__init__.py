"""Deferred tools: the model sees a few tools, and searches for the others when it needs them."""
