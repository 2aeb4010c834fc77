"""The names of what is compared, as the table, the results file and the worker processes say them."""

from datetime import timedelta

BARE = "bare"
"""The yardstick."""
OURS = "wakeful"
LOCAL = "wakeful, local tools"
WHOLE = "whole conversation"
"""The yardstick, with the whole conversation passed to every model call; only its history is weighed."""

STREAMED = "streamed"
"""Our agent that gets its answers token by token."""
COMPLETE = "complete"
"""Our agent that gets the same answers as a whole. Both names have one length: they stand in the history weighed."""
WATCHED = "watched"
"""Our agent that calls tools, asks a person, and then says much while it is watched."""

PEER = "workflow_streams"
"""Temporal's own streams, `temporalio.contrib.workflow_streams`, for what watchers of theirs write into history."""
DIRECT = "direct"
"""Nothing in between: whoever reads the model's answer from the provider."""

BARE_SANDBOXED = "bare-sandboxed"
"""The yardstick's worker with the SDK's default sandbox; in the results it is the yardstick all the same."""

HEARTBEAT_TIMEOUT = timedelta(seconds=3)
"""Without a sign of life for so long, the worker of a stream counts as lost; the same on both sides."""


def streaming(side: str) -> str:
    """The task queue of a side's streaming worker, which may be killed while the others go on."""
    return f"{side}-streaming"
