"""The names of what is compared, as the table, the results file and the worker processes say them."""

BARE = "bare"
"""The yardstick."""
OURS = "wakeful"
LOCAL = "wakeful, local tools"
WHOLE = "whole conversation"
"""The yardstick, with the whole conversation passed to every model call; only its history is weighed."""

BARE_SANDBOXED = "bare-sandboxed"
"""The yardstick's worker with the SDK's default sandbox; in the results it is the yardstick all the same."""
