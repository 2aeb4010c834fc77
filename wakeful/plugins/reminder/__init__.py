"""Reminders: context messages that the model reads after certain tool calls."""
