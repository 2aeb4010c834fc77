"""Guardrails: checks of what users write to a model, and of what it answers."""
