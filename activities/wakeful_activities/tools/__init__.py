"""The activity of a tool call, and the hooks around it."""
