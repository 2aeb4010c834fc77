"""The activity that executes a tool call, and the hooks around it."""
