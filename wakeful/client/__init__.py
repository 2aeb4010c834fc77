"""Talk to threads from outside: start, send, decide, watch, fork, rewind, diagnose. Nothing here runs in a workflow."""
