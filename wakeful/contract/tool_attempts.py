"""What the attempts of one tool call leave for the next: how many have raised an error, and a checkpoint.

It is a part of the heartbeats of the call's activity, of which the server keeps the newest alone: each has the whole.
Nothing of it is written to history.
"""

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire

RAISED_ERROR = "ToolRaisedError"
"""The type of the failure of an attempt whose tool raised an error that Temporal retries."""

CHECKPOINT_BYTES = 32_000
"""Of a checkpoint as JSON: every heartbeat carries it."""


class ToolAttempts(Wire):
    """What earlier attempts left."""

    raised_errors: int
    """How many attempts ended with an error that is retried. Lost workers are not counted."""
    raised_at_attempt: Few[int] = 0
    """The last of them: whatever it did has ended, and it may be followed by another attempt."""
    checkpoint: Maybe[JsonValue] = None
    """The newest checkpoint."""
