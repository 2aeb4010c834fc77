"""A call of a remote agent, as Temporal describes it while it is pending: its newest heartbeat has the task."""

import contextlib
from dataclasses import dataclass
from datetime import timedelta

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client

from wakeful.contract.remote import RemoteProgress

RPC_TIMEOUT = timedelta(seconds=10)


@dataclass(frozen=True)
class PendingCall:
    is_running: bool
    """An attempt is running; else Temporal waits to start the next one."""
    attempt: int
    progress: RemoteProgress | None

    @property
    def task_id(self) -> str | None:
        return self.progress.task_id if self.progress else None

    @property
    def context_id(self) -> str | None:
        return self.progress.context_id if self.progress else None

    @property
    def may_be_sent(self) -> bool:
        """Whether an attempt may have sent the message without learning the task's id."""
        reported = self.progress.reported if self.progress else 0
        return self.attempt - 1 > reported or (self.progress is not None and self.progress.may_be_sent)


async def read_pending(client: Client, thread_id: str, run_id: str, work_id: str) -> PendingCall | None:
    """The call; None if it is not pending any more.

    Raises:
        RPCError: Temporal does not answer.
    """
    described = await client.get_workflow_handle(thread_id, run_id=run_id).describe(rpc_timeout=RPC_TIMEOUT)
    for pending in described.raw_description.pending_activities:
        if pending.activity_id != work_id:
            continue
        details = await client.data_converter.decode(pending.heartbeat_details.payloads)
        running = (
            PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
            PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED,
        )
        return PendingCall(pending.state in running, pending.attempt, _progress(details))
    return None


def _progress(details: list[object]) -> RemoteProgress | None:
    for each in details:
        with contextlib.suppress(ValueError):  # another part of the heartbeat
            return RemoteProgress.model_validate(each)
    return None
