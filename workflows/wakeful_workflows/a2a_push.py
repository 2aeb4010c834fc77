"""`A2aPush`: sends the push notifications of a thread's A2A tasks, until each task has ended or its config is deleted.

There is one for each thread whose tasks have push configs. Nothing polls: an attempt of the `post_task_update` activity
follows the thread for a moment, posts the next state and returns. While nothing changes there is only a timer. The
worker that next handles the thread, or one of its sub-agents, signals that there may be news (`task_changes.py`); the
timer is for the case that this signal was lost. Runs unsandboxed, like `AgentRun` and for the same reasons.
"""

import asyncio
import contextlib
import logging
from datetime import timedelta

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

from wakeful.contract import names
from wakeful.contract.push import Posted, PostInput, PushConfig, PushConfigRef, PushState, PushSubscription, has_room
from wakeful_workflows.run_log import logger
from wakeful_workflows.tools import HEARTBEAT_TIMEOUT

CHECK_SECONDS = timedelta(hours=1).total_seconds()
"""How often the task is looked at without a signal: a worker that is killed sends none, nor does a thread that is
terminated."""

ATTEMPT_TIMEOUT = timedelta(minutes=10)

RETRIES = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=10))
"""Of a notification that a webhook does not accept, until the activity says that it has been tried for long enough."""

LAST = Priority(priority_key=5)
"""After everything that runs wait for."""


@workflow.defn(name=names.WORKFLOW_A2A_PUSH, sandboxed=False)
class A2aPush:
    """The push notifications of one thread."""

    @workflow.init
    def __init__(self, state: PushState) -> None:
        self._thread_id = state.thread_id
        self._requests: list[PushConfig | PushConfigRef] = []
        """What signals ask for, in their order."""
        self._subscriptions = {each.config.ref: each for each in state.subscriptions}
        self._deliveries = dict[PushConfigRef, asyncio.Task[None]]()
        self._is_pausing = False
        """Deliveries end, to continue as new: what is being posted is posted first, or it would be posted twice."""
        self._changes = 0
        """How often the thread may have changed."""

    @workflow.run
    async def run(self, _state: PushState) -> None:
        while True:
            self._take_requests()
            await self._take_ended()
            if self._requests:  # they came while a delivery was being stopped
                continue
            if not self._subscriptions:
                return
            self._is_pausing |= is_long()
            if self._is_pausing and not self._deliveries:
                workflow.continue_as_new(self._kept())
            if not self._is_pausing:
                self._start_deliveries()
            await workflow.wait_condition(self._has_news)

    def _start_deliveries(self) -> None:
        for ref in self._subscriptions:
            if ref not in self._deliveries:
                self._deliveries[ref] = asyncio.create_task(self._deliver(ref))

    def _take_requests(self) -> None:
        """Apply what signals asked for. A config that is set again is sent only what the last one was not."""
        requests, self._requests = self._requests, []
        for request in requests:
            match request:
                case PushConfig(ref=ref):
                    known = self._subscriptions.get(ref)
                    if known is not None and known.config == request:
                        continue
                    if known is None and not has_room(request, self._subscriptions):
                        continue
                    self._subscriptions[ref] = PushSubscription(config=request, sent=known.sent if known else ())
                case PushConfigRef() as ref:
                    self._subscriptions.pop(ref, None)
            if ref in self._deliveries:
                self._deliveries[ref].cancel()

    async def _take_ended(self) -> None:
        """Forget the deliveries that have ended; those of configs that were set again start over."""
        await self._stop(*(ref for ref, each in self._deliveries.items() if each.done() or each.cancelling()))

    async def _stop(self, *refs: PushConfigRef) -> None:
        for ref in refs:
            delivery = self._deliveries.pop(ref)
            delivery.cancel()
            await workflow.wait_condition(delivery.done)
            if not delivery.cancelled():
                delivery.result()  # a bug of ours fails the workflow task, and is seen

    def _kept(self) -> PushState:
        return PushState(thread_id=self._thread_id, subscriptions=tuple(self._subscriptions.values()))

    def _has_news(self) -> bool:
        must_pause = is_long() and not self._is_pausing
        return must_pause or bool(self._requests) or any(each.done() for each in self._deliveries.values())

    async def _deliver(self, ref: PushConfigRef) -> None:
        """Post the states of the task in their order, until the last one."""
        while not self._is_pausing:
            changes = self._changes
            posted = await self._post(self._subscriptions[ref])
            # A signal that came with the result may have changed the config, or deleted it.
            known = self._subscriptions.get(ref)
            if known is None or posted.is_over:
                self._subscriptions.pop(ref, None)
                return
            if posted.state is not None:
                sent = (*known.sent, posted.state)
                self._subscriptions[ref] = known.model_copy(update={"sent": sent})
            if posted.state is None:
                await self._changed_since(changes)

    async def _changed_since(self, changes: int) -> None:
        with contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._changes > changes or self._is_pausing,
                timeout=CHECK_SECONDS,
                timeout_summary="was a signal lost?",
            )

    async def _post(self, subscription: PushSubscription) -> Posted:
        try:
            posted: Posted = await workflow.execute_activity(
                names.ACTIVITY_POST_TASK,
                PostInput(thread_id=self._thread_id, subscription=subscription),
                result_type=Posted,
                start_to_close_timeout=ATTEMPT_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRIES,
                priority=LAST,
                summary=f"task {subscription.config.task_id}",
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            fields = {"thread_id": self._thread_id, "task": subscription.config.task_id}
            logger.log(logging.WARNING, "push config dropped: its webhook takes no notification", extra=fields)
            return Posted(is_over=True)
        return posted

    @workflow.signal(name=names.SIGNAL_SET_PUSH, description="Send the states of a task to a webhook")
    def set_push_config(self, config: PushConfig) -> None:
        self._requests.append(config)

    @workflow.signal(name=names.SIGNAL_DELETE_PUSH, description="Send them no longer")
    def delete_push_config(self, ref: PushConfigRef) -> None:
        self._requests.append(ref)

    @workflow.signal(name=names.SIGNAL_TASK_CHANGED, description="A task of the thread may have another state")
    def task_changed(self) -> None:
        self._changes += 1


def is_long() -> bool:
    """Whether the execution's history is so long that another one should continue."""
    return workflow.info().is_continue_as_new_suggested()
