"""Archive what an execution would leave behind: before the thread continues as new, and before it closes.

Retention deletes closed executions, so the next execution must not need this one. The activity reads the messages and
events from the thread itself, so they are not written to history a second time; what it returns are references.
"""

from datetime import timedelta

from pydantic_core import to_json
from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError

from wakeful.contract import ids, names
from wakeful.contract.archive import ArchiveInput, ArchiveOutput
from wakeful.contract.events import EventRecord
from wakeful.contract.segments import SegmentRef, archived_events
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.archive import still_valid, unarchived_bytes
from wakeful.telemetry.log_causes import cause_of
from wakeful_workflows.history_estimate import ACTIVITY, HistoryEstimate
from wakeful_workflows.queries import EventLog
from wakeful_workflows.run_log import logger
from wakeful_workflows.tools import HEARTBEAT_TIMEOUT, Handle

UNARCHIVED_BYTES = 256_000
"""Of messages and events that continue-as-new passes on; if there are more, they are archived first."""

_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
"""Without a limit: a thread that cannot be archived stays in its execution."""


def counted_bytes(record: EventRecord) -> int:
    """The bytes of an event that count, for every release alike: it decides when a command is scheduled."""
    return len(to_json(record, exclude={"event": {"adapter"}}))


class Archives:
    """The archived part of a thread, and the archiving that is in flight."""

    def __init__(self, history: HistoryEstimate, segments: tuple[SegmentRef, ...] = (), *, number: int = 0) -> None:
        self.segments = segments
        self.number = number
        """How often the thread has been archived."""
        self._history = history
        self._activity: Handle | None = None
        self._has_news = False
        self._closing: Thread | None = None
        """The thread in the state that the last act of this execution archives, or has archived."""

    @property
    def is_busy(self) -> bool:
        return self._activity is not None

    @property
    def has_news(self) -> bool:
        """An archiving has ended, and the workflow has not taken note of it."""
        return self._has_news

    def take_news(self) -> bool:
        has_news, self._has_news = self._has_news, False
        return has_news

    def is_needed(self, thread: Thread, log: EventLog) -> bool:
        """Whether the thread has more to pass on than continue-as-new should."""
        self.segments = still_valid(self.segments, thread.transcript)
        size = unarchived_bytes(self.segments, thread.transcript)
        for record in log.since(archived_events(self.segments)):
            if size > UNARCHIVED_BYTES:
                break
            size += counted_bytes(record)
        return size > UNARCHIVED_BYTES

    def start(self, thread: Thread, log: EventLog, *, closes: bool = False) -> None:
        """Archive everything that the thread has said and shown so far."""
        self.segments = still_valid(self.segments, thread.transcript)
        self.number += 1
        self._closing = thread if closes else None
        position = thread.transcript.position
        input = ArchiveInput(
            number=self.number,
            segments=self.segments,
            messages=position.length,
            digest=position.digest,
            events=log.last,
            closes=closes,
            expired=closes and thread.is_expired,
            wakes=closes and thread.has_late,
        )
        self._activity = workflow.start_activity(
            names.ACTIVITY_ARCHIVE,
            self._history.encode(ACTIVITY, input),
            activity_id=ids.work_id(ids.Archive(self.number)),
            result_type=RawValue,
            start_to_close_timeout=timedelta(minutes=2),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_RETRIES,
            summary="archive the thread, which closes" if closes else "archive the oldest messages and events",
        )
        self._activity.add_done_callback(self._on_done)

    @property
    def has_last_act(self) -> bool:
        """Whether this execution has archived, or is archiving, its end."""
        return self._closing is not None

    def is_closed(self, thread: Thread) -> bool:
        """Whether the thread is archived in its very last state."""
        return self._closing is thread and not self.is_busy

    def _on_done(self, activity: Handle) -> None:
        self._activity = None
        try:
            returned = activity.result()
            self._history.add_result(returned)
            output: ArchiveOutput = workflow.payload_converter().from_payload(returned.payload, ArchiveOutput)
        except ActivityError as error:
            logger.warning("the thread was not archived", extra={"cause": cause_of(error.cause or error)})
            return
        except Exception as error:  # a malformed result must not block the thread
            logger.warning("the thread was not archived", extra={"cause": cause_of(error)})
            return
        # Without one, the next fact tries again: the thread was rolled back meanwhile.
        self._has_news = bool(output.segments)
        self.segments = (*self.segments, *output.segments)
