"""A2A: the push notifications of tasks."""
