"""`ThreadArchive`: holds a part of a thread in its start input, because Temporal never deletes an open execution.

It does nothing until its thread closes. Then it waits for as long as the thread can be woken, and completes if the
thread has not been woken. A thread that was terminated or deleted sends no signal, so each archive also looks for its
thread about once a month. The last archive does what a thread cannot do to itself while it runs: it deletes a thread
that has expired, and wakes one to which messages came after the close. Runs unsandboxed, like `AgentRun` and for the
same reasons.

The content is never decoded here: the SDK keeps the raw start input of every cached execution, and a decoded copy would
double that.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy, VersioningBehavior

from wakeful.contract import names
from wakeful.contract.archive import ArchivedThread, ExpireInput, SegmentHeader, ThreadClosed, WakeInput
from wakeful_workflows.signalling import RETRY_FOREVER
from wakeful_workflows.tools import HEARTBEAT_TIMEOUT

CHECK_SECONDS = timedelta(days=30).total_seconds()
"""About how often an archive looks for its thread. Up to half of it is added at random: archives that were written
together do not look at the same time."""

DELETION_TIMEOUT = timedelta(minutes=15)
"""Of one attempt to delete a thread with everything that belongs to it."""

WAKE_TIMEOUT = timedelta(seconds=30)
"""Of one attempt to wake a thread."""

_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=5), maximum_interval=timedelta(hours=1))


@workflow.defn(name=names.WORKFLOW_ARCHIVE, sandboxed=False)
class ThreadArchive:
    """A segment of a thread. Its arguments are the header and the compressed content."""

    @workflow.init
    def __init__(self, header: SegmentHeader, _content: RawValue) -> None:
        self._thread_id = header.thread_id
        self._closed: ThreadClosed | None = None

    @workflow.run
    async def run(self, _header: SegmentHeader, _content: RawValue) -> None:
        seconds = _until_check()
        while True:
            closed = await self._closed_within(seconds)
            if closed is None:
                thread = await self._check_thread()
                if not thread.is_open and thread.keep_seconds <= 0:
                    return
                seconds = _until_check() if thread.is_open else thread.keep_seconds
            elif closed.late_run_id is not None:
                await self._wake_thread(closed.late_run_id)
                seconds = _until_check()
            elif closed.expired_run_id is None:
                seconds = closed.keep_seconds
            elif await self._delete_thread(closed.expired_run_id):
                return
            else:
                seconds = _until_check()

    async def _closed_within(self, seconds: float) -> ThreadClosed | None:
        """Wait for so long for the signal that the thread has closed, and take it; None if there is none."""
        if seconds > 0:
            try:
                await workflow.wait_condition(
                    lambda: self._closed is not None, timeout=seconds, timeout_summary="is the archive still needed?"
                )
            except TimeoutError:
                return None
        closed, self._closed = self._closed, None
        return closed

    async def _delete_thread(self, run_id: str) -> bool:
        """Delete the thread with all its archives; False if a message has arrived meanwhile."""
        is_deleted: bool = await workflow.execute_activity(
            names.ACTIVITY_EXPIRE,
            ExpireInput(thread_id=self._thread_id, run_id=run_id),
            result_type=bool,
            start_to_close_timeout=DELETION_TIMEOUT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_RETRIES,
            summary="delete the thread, which has expired",
        )
        return is_deleted

    async def _wake_thread(self, run_id: str) -> None:
        await workflow.execute_activity(
            names.ACTIVITY_WAKE,
            WakeInput(thread_id=self._thread_id, run_id=run_id),
            start_to_close_timeout=WAKE_TIMEOUT,
            retry_policy=RETRY_FOREVER,
            summary="wake the thread, to which messages came after its close",
        )

    async def _check_thread(self) -> ArchivedThread:
        found: ArchivedThread = await workflow.execute_activity(
            names.ACTIVITY_CHECK_THREAD,
            self._thread_id,
            result_type=ArchivedThread,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=_RETRIES,
            summary="was its thread woken?",
        )
        return found

    @workflow.signal(name=names.SIGNAL_THREAD_CLOSED, description='The thread has closed: {"keep_seconds": 86400}')
    def thread_closed(self, closed: ThreadClosed) -> None:
        self._closed = closed


@workflow.defn(name=names.WORKFLOW_ARCHIVE, sandboxed=False, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class VersionedThreadArchive(ThreadArchive):
    """For workers with Worker Versioning: an archive may live for years, so a worker of any version handles it.

    The server rejects a versioning behavior from workers without Worker Versioning.
    """

    @workflow.init
    def __init__(self, header: SegmentHeader, content: RawValue) -> None:
        super().__init__(header, content)

    @workflow.run
    async def run(self, header: SegmentHeader, content: RawValue) -> None:
        await super().run(header, content)


def _until_check() -> float:
    return CHECK_SECONDS * (1 + workflow.random().random() / 2)
