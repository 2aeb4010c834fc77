"""Watch threads: every event once, live or afterwards, with nothing written to history."""
