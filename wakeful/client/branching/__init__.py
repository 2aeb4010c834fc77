"""Continue from an earlier step of a thread: fork it, rewind it, or compare two threads."""
