"""The agent loop as a pure state machine: facts in, commands and events out. No I/O, no clock, no chance."""
