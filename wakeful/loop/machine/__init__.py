"""The state machine itself: `advance(thread, fact) -> (thread, commands, events)`, its values and its tables."""
