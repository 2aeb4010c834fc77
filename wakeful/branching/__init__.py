"""Go another way from a step of a thread: fork it, rewind it, compare two of them."""
