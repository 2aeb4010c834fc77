"""Count how long this execution's history has become, from what the workflow itself has caused and seen.

The length that the SDK reports depends on how core cuts history into activations, which is not the same in every
replay: a run that continued as new by it could get stuck. This count depends on facts and commands alone. It counts a
workflow task for each fact, although one task may bring several, so that it is rather too high than too low.
"""

from typing import Any

from pydantic_core import to_json
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from wakeful.contract.agents import HistoryBudget
from wakeful.contract.limits import COMMAND_BYTES

TASK = 3
"""A workflow task is scheduled, started and completed."""

EXECUTION = 2 + TASK
"""It is started and closed."""
SIGNAL = 1 + TASK
CANCEL_REQUEST = 1 + TASK
ACTIVITY = 3 + TASK
"""It is scheduled, started, and ends; then a workflow task brings its result."""
LOCAL_ACTIVITY = 1 + TASK
CANCEL = 1
TIMER = 2 + TASK
CHILD = 3 + 2 * TASK
"""It is initiated, started, and closes; both are reported."""
EXTERNAL_SIGNAL = 2 + TASK
UPSERT = 1

EVENT_BYTES = 250
"""Of an event without its payloads: ids, types, timeouts, names and identities."""

FAILURE_BYTES = 2_000
"""Of a failure besides its message: a stack trace, and the failures that caused it."""


class TooLarge(ValueError):
    """A command cannot be scheduled, because Temporal would not accept its input."""


class HistoryEstimate:
    """The events and bytes of this execution so far, rather too many than too few."""

    def __init__(self, *, size: int = 0) -> None:
        """`size` is that of the execution's input."""
        self.events = 0
        self.bytes = 0
        self.add(EXECUTION, size=size)

    def add(self, events: int, *, size: int = 0) -> None:
        """Count events, and the bytes of the payloads in them."""
        self.events += events
        self.bytes += events * EVENT_BYTES + size

    def add_result(self, returned: RawValue) -> None:
        """Count the payload of a result; its events were counted when the work started."""
        self.bytes += returned.payload.ByteSize()

    def add_failure(self, error: BaseException) -> None:
        """Count the failure of an activity or a child; that of a sub-agent has its result as a detail."""
        texts = (str(error), str(error.__cause__ or ""))
        self.bytes += FAILURE_BYTES + sum(len(text.encode()) for text in texts) + _details_size(error.__cause__)

    def encode(self, events: int, value: Any) -> RawValue:
        """Count events that have `value` as their payload, and convert it: the SDK then does not convert it again.

        Raises:
            TooLarge: Temporal would not accept it, and the workflow task would fail again and again.
        """
        payload: Payload = workflow.payload_converter().to_payload(value)
        if (size := payload.ByteSize()) > COMMAND_BYTES:
            raise TooLarge(f"its input has {size:,} bytes; at most {COMMAND_BYTES:,} are accepted")
        self.add(events, size=size)
        return RawValue(payload)

    def exceeds(self, budget: HistoryBudget, *, times: int = 1) -> bool:
        return self.events >= times * budget.events or self.bytes >= times * budget.bytes


def _details_size(error: BaseException | None) -> int:
    if not isinstance(error, ApplicationError):
        return 0
    try:
        return size_of(error.details)
    except Exception:  # another program's, in an encoding that is unknown here
        return FAILURE_BYTES


def size_of(value: Any) -> int:
    """About the bytes of a payload with this value."""
    return len(to_json(value))
