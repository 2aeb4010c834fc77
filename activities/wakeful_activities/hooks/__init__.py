"""Run hooks and gates: user code, with a timeout each, whose failures are values."""
