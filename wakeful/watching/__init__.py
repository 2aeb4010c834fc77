"""Watch threads: what happens on them, live or afterwards, each event once, and nothing of it written to history."""
