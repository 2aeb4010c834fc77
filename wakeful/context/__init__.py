"""What a model is shown of a conversation: estimates, the request view, compaction and context messages. Pure.

No I/O, no clock, no chance. The inference activity makes its request with it; the loop decides about compaction with
it. Nothing here changes a conversation: it is an append-only log, and everything below is a way of looking at it.
"""
