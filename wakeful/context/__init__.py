"""What a request includes of a conversation: token estimates, the request view, compaction and context messages.

Pure: no I/O, no clock, no randomness. The inference activity builds requests with it, and the loop decides when to
compact with it. Nothing here changes a conversation, which is an append-only log.
"""
