"""Which execution of a thread has its conversation: the newest that really started.

An execution that was closed before its first workflow task completed, or while it was being restored, has nothing of
the thread: its predecessor has everything. Read from history alone, so no worker is needed.
"""

from dataclasses import dataclass, replace
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.contract.errors import CallerError, ThreadNotFound
from wakeful.contract.inference import TranscriptTail
from wakeful.contract.names import ACTIVITY_RESTORE, SNAPSHOT
from wakeful.contract.requests import RunRequest, parse_request
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments, walk_chain
from wakeful.history.moments import ActivityCompleted, HistoryMoment, Started, TaskCompleted
from wakeful.rpc_errors import error_of

FIRST_EVENTS = 50
"""An execution starts within its first events, however long it gets."""


@dataclass
class ExecutionStart:
    """How an execution of a thread was started, and whether anything came of it."""

    run_id: str
    has_started: bool = False
    """It has been restored, if it had to be, and has completed a workflow task."""
    predecessor: ExecutionRef | None = None
    """The execution of the same thread that it continues."""
    request: RunRequest | None = None
    """None if it was started with a snapshot, or if the request is malformed."""
    snapshot: dict[str, Any] | None = None
    """What it continues with, as continue-as-new has packed it."""
    at: int = 0
    """When it was started, in milliseconds since 1970; of a reset, when the history started that it retains."""
    is_reset: bool = False
    """It begins with the history of an execution that was reset; or a later one does, which never started."""

    @property
    def tenant(self) -> str | None:
        """The tenant that the thread belongs to, as far as the execution's input says it."""
        if self.snapshot is not None:
            tenant = self.snapshot["thread"]["identity"].get("tenant")  # unpacked, it would have to be of this release
            return tenant if isinstance(tenant, str) else None
        if self._continues and not self.has_started:
            return None  # it may have been refused because it named another one
        return self.request.tenant if self.request else None

    @property
    def is_of_any_tenant(self) -> bool:
        """Whether the input leaves the tenant open: the execution has that of the one which it continues."""
        return self.tenant is None and self._continues

    @property
    def _continues(self) -> bool:
        return self.request is not None and bool(self.request.fork or self.request.restore_from)


async def latest_started(temporal: Client, thread_id: str, run_id: str, *, or_snapshot: bool = False) -> ExecutionStart:
    """The newest execution that started, from this one back; the oldest that is left, if none did.

    Args:
        or_snapshot: or the newest that was started with a snapshot, which has the thread, too.

    Raises:
        ThreadNotFound: there is no such execution.
    """

    async def read(execution: ExecutionRef) -> ExecutionStart:
        return await read_start(temporal, execution)

    start, is_reset = ExecutionStart(run_id), False
    try:
        async for start in walk_chain(read, ExecutionRef(thread_id, run_id)):
            is_reset |= start.is_reset
            if start.has_started or (or_snapshot and start.snapshot is not None):
                break
    except ThreadNotFound:  # the server has deleted the predecessor
        if start.run_id == run_id and start.predecessor is None:
            raise
    return replace(start, is_reset=is_reset)


async def started_before(temporal: Client, thread_id: str, run_id: str) -> str | None:
    """The execution that has the conversation of this one, which never started; None if it did, or none is left.

    Raises:
        ThreadNotFound: there is no such execution.
    """
    start = await latest_started(temporal, thread_id, run_id)
    return start.run_id if start.has_started and start.run_id != run_id else None


async def read_tenant(temporal: Client, thread_id: str, start: ExecutionStart) -> str | None:
    """The tenant that the thread belongs to, from what was restored if the execution's input leaves it open."""
    if not start.is_of_any_tenant:
        return start.tenant
    async for moment in read_moments(temporal, ExecutionRef(thread_id, start.run_id), page_size=FIRST_EVENTS):
        if isinstance(moment, ActivityCompleted) and moment.activity_type == ACTIVITY_RESTORE:
            tail = await Payloads(temporal.data_converter).value(moment.result, TranscriptTail)
            return tail.carryover.tenant if tail.carryover else None
    return None


async def read_start(temporal: Client, execution: ExecutionRef) -> ExecutionStart:
    """How one execution was started.

    Raises:
        ThreadNotFound: there is no such execution.
    """
    reader = _Reader(temporal, execution)
    try:
        async for moment in read_moments(temporal, execution, page_size=FIRST_EVENTS):
            await reader.read(moment)
            if reader.start.has_started:
                break
    except RPCError as error:
        raise error_of(error, execution.thread_id) from error
    return reader.start


class _Reader:
    """Reads the first moments of an execution."""

    def __init__(self, temporal: Client, execution: ExecutionRef) -> None:
        self._payloads = Payloads(temporal.data_converter)
        self._thread_id = execution.thread_id
        self._is_valid = False
        self._is_restored = True
        self.start = ExecutionStart(execution.run_id)

    async def read(self, moment: HistoryMoment) -> None:
        match moment:
            case Started():
                self.start.at = moment.at
                self.start.is_reset = moment.original_run_id not in ("", self.start.run_id)
                self._set_predecessor(moment.continued_run_id)
                try:
                    self._on_input(await self._payloads.json(moment.input))
                except CallerError as error:  # the workflow has failed with that, unless only this client cannot decode
                    self._payloads.check_codec(error, f"thread {self._thread_id!r}")
            case ActivityCompleted(activity_type=kind):
                self._is_restored |= kind == ACTIVITY_RESTORE
            case TaskCompleted():
                self.start.has_started = self._is_valid and self._is_restored
            case _:
                pass

    def _on_input(self, given: object) -> None:
        if isinstance(given, dict) and SNAPSHOT in given:
            self._is_valid, self.start.snapshot = True, given[SNAPSHOT]
            return
        self.start.request = request = parse_request(given)
        self._is_valid = True
        self._is_restored = request.fork is None and request.restore_from is None
        if request.restore_from is not None:
            self._set_predecessor(request.restore_from)

    def _set_predecessor(self, run_id: str) -> None:
        self.start.predecessor = ExecutionRef(self._thread_id, run_id) if run_id else None
