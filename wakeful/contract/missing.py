"""What a worker lacks for an activity: in a rolling deploy, other workers may have it.

An attempt that finds it missing executes nothing and fails with `NOT_ON_THIS_WORKER`. Its heartbeat records the
`Missing`, so that any worker can continue to count the time, and a diagnosis can quote it.
"""

from wakeful.contract.base import Few, Wire

NOT_ON_THIS_WORKER = "NotOnThisWorker"
"""The type of the failure of an attempt whose worker lacks what the activity needs."""

TIMEOUTS = ("TemporalTimeout:StartToClose", "TemporalTimeout:Heartbeat")
"""How a retry policy names the timeouts of an attempt. One that lists them as non-retryable is that of a tool which
must not run twice: only an attempt that has executed nothing is retried."""


class Missing(Wire):
    """What an attempt could not find on its worker. Times are in ms since 1970."""

    what: str
    """As in `agent 'helper'`."""
    known: Few[tuple[str, ...]] = ()
    """What the worker has instead, as far as it helps: the ids of its agents."""
    worker: Few[str] = ""
    """The identity of the worker."""
    missing_since: int
    """When the first attempt in a row did not find it."""
    retried_until: int
    """When the patience ends."""
    attempt: int
    """The attempt that did not find it: none before it in a row has executed anything."""
    reported: Few[bool] = False
    """The thread was signalled, so that its details show it."""
    reason: Few[str] = ""
    """Why the worker cannot reach it; absent if it is its registry that lacks it."""


class MissingReport(Wire):
    """The payload of the `missing` signal."""

    activity_id: str
    missing: Missing
