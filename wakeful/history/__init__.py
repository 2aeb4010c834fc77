"""Workflow history read back: one decoder, and the readers on top of it."""
