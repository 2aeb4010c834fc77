"""What providers share: HTTP, server-sent events, errors, and reading and writing of messages."""
