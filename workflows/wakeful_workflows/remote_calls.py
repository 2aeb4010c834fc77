"""Calls of remote agents: their activities, and the cancels that their services are told of.

A cancel reaches an activity only while an attempt is running, and a call that polls is mostly between two attempts. So
another activity first cancels the task at its service, and then the call is cancelled.
"""

from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.common import Priority, RawValue, RetryPolicy
from temporalio.workflow import ActivityCancellationType

from wakeful.contract import ids, names
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.remote import CancelRemoteInput
from wakeful.loop.calls.batch import Batch
from wakeful_workflows.history_estimate import ACTIVITY, HistoryEstimate
from wakeful_workflows.run_log import logger
from wakeful_workflows.tools import HEARTBEAT_TIMEOUT, Handle

ATTEMPT_MARGIN = timedelta(minutes=5)
"""What an attempt may take besides the request that sends its message."""
CANCEL_TIMEOUT = timedelta(minutes=2)
"""How long a service is told of a cancel: a run that is cancelled does not wait for longer."""
_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
"""Without a limit: the activity knows its endpoint's timeout and its agent's patience."""
_CANCEL_RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10))


def start_remote_call(agent: ResolvedAgent, encoded: RawValue, *, id: str, step: int, priority: Priority) -> Handle:
    """Call the service that runs the agent; the activity returns a `ModelResponse`, as an inference does."""
    return workflow.start_activity(
        names.ACTIVITY_CALL_REMOTE,
        encoded,
        activity_id=id,
        result_type=RawValue,
        start_to_close_timeout=timedelta(seconds=agent.inference_timeout_seconds) + ATTEMPT_MARGIN,
        heartbeat_timeout=timedelta(seconds=agent.inference_heartbeat_seconds),
        retry_policy=_RETRIES,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        priority=priority,
        summary=f"step {step} · {agent.agent_id}",
    )


class RemoteCalls:
    """The calls of remote agents in flight, by their ids, and the cancels in flight."""

    def __init__(self, history: HistoryEstimate) -> None:
        self._history = history
        self._agents: dict[str, str] = {}
        """The digest of the agent of each call."""
        self._cancels: set[str] = set()

    @property
    def is_cancelling(self) -> bool:
        return bool(self._cancels)

    def add(self, id: str, agent: str) -> None:
        self._agents[id] = agent

    def forget(self, id: str) -> None:
        self._agents.pop(id, None)

    def cancel_first(self, id: str, *, then: Callable[[], object], priority: Priority) -> bool:
        """Cancel the task of a call at its service, and then do the rest; False if the call is not a remote agent's."""
        if (agent := self._agents.get(id)) is None:
            return False
        self._start(CancelRemoteInput(agent=agent, work_id=id), then, priority)
        return True

    def leave(self, agent: str, batch: Batch, *, priority: Priority) -> None:
        """Cancel the task that waits for an answer which will not come."""
        for call in batch.suspended:
            arguments, work_id = call.call.arguments, ids.asking_inference(call.call.id)
            task_id = arguments.get("task_id") if isinstance(arguments, dict) else None
            if call.call.name == names.TOOL_REMOTE_INPUT and isinstance(task_id, str) and work_id is not None:
                target = CancelRemoteInput(agent=agent, work_id=work_id, task_id=task_id)
                self._start(target, lambda: None, priority)

    def _start(self, target: CancelRemoteInput, then: Callable[[], object], priority: Priority) -> None:
        work = ids.parse_work(target.work_id)
        id = ids.work_id(ids.CancelRemote(work.step if isinstance(work, ids.Infer) else 0))
        if id in self._cancels:  # a second cancel of the same call adds nothing
            return
        self._cancels.add(id)
        handle: Handle = workflow.start_activity(
            names.ACTIVITY_CANCEL_REMOTE,
            self._history.encode(ACTIVITY, target),
            activity_id=id,
            result_type=RawValue,
            schedule_to_close_timeout=CANCEL_TIMEOUT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_CANCEL_RETRIES,
            priority=priority,
            summary="cancel the remote task",
        )
        handle.add_done_callback(lambda _: self._on_told(id, handle, then))

    def _on_told(self, id: str, handle: Handle, then: Callable[[], object]) -> None:
        self._cancels.discard(id)
        if not handle.cancelled() and handle.exception() is not None:
            logger.warning("a remote task may still be at work: its service was not reached", extra={"command": id})
        then()
