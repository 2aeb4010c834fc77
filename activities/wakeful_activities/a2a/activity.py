"""The `call_remote_agent` and `cancel_remote_task` activities.

A call submits one message and then polls. Between two polls it is an activity that Temporal retries later, so it holds
no slot of a worker and no connection, and the heartbeat keeps what the next attempt, on any worker, has to know.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.inference import InferInput, ModelResponse
from wakeful.contract.names import ACTIVITY_CALL_REMOTE, ACTIVITY_CANCEL_REMOTE
from wakeful.contract.remote import CancelRemoteInput, Endpoint
from wakeful.telemetry.telemetry import OFF, Telemetry
from wakeful_activities.a2a.attempt import RemoteAttempt
from wakeful_activities.a2a.call import STREAM_SECONDS, RemoteCall
from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind
from wakeful_activities.a2a.outgoing import Outgoing, outgoing
from wakeful_activities.a2a.pending_call import PendingCall, read_pending
from wakeful_activities.a2a.services import Services
from wakeful_activities.heartbeats import HeartbeatIntervals, heartbeating
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.inference.build_request import RequestShape, build_request
from wakeful_activities.inference.chat_telemetry import ChatTelemetry
from wakeful_activities.other_workers import OtherWorkers

if TYPE_CHECKING:
    from wakeful_activities.a2a.service import RemoteService

_logger = logging.getLogger("wakeful")

PENDING_POLL_SECONDS = 0.5


class RemoteAgentActivity:
    """Calls remote agents, and cancels their tasks."""

    def __init__(
        self,
        client: Client,
        cache: HistoryCache,
        others: OtherWorkers,
        intervals: HeartbeatIntervals | None = None,
        telemetry: Telemetry = OFF,
        *,
        stream_seconds: float = STREAM_SECONDS,
    ) -> None:
        self._client = client
        self._cache = cache
        self._intervals = intervals
        self._telemetry = telemetry
        self._stream_seconds = stream_seconds
        self._services = Services(others)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._services.aclose()

    @activity.defn(name=ACTIVITY_CALL_REMOTE)
    async def call_remote_agent(self, input: InferInput) -> ModelResponse:
        with ChatTelemetry(self._telemetry) as telemetry:
            agent, endpoint = await self._agent(input.agent)
            attempt = RemoteAttempt(agent.agent_id, endpoint)
            telemetry.about(agent.agent_id, agent.model)
            telemetry.polls = attempt.progress.polls

            async def message() -> Outgoing:
                return await self._message(input, agent, endpoint)

            with heartbeating(attempt.heartbeat, self._intervals, live=input.live) as beats:
                call = RemoteCall(input, agent, endpoint, attempt, self._services, beats, message)
                response = await call.answered(stream_seconds=self._stream_seconds)
            self._cache.put_answer(activity.info().activity_id, response, length=input.transcript.length)
            telemetry.answered(response)
        return response

    async def _message(self, input: InferInput, agent: ResolvedAgent, endpoint: Endpoint) -> Outgoing:
        """What the agent is sent."""
        assert input.identity is not None  # the workflow names the run of a remote agent
        history = (await build_request(self._cache, input, agent, RequestShape.of(input, agent))).history
        thread_id, is_first_step = input.identity.thread_id, input.step <= 1
        return outgoing(history, service=endpoint.service, thread_id=thread_id, is_first_step=is_first_step)

    @activity.defn(name=ACTIVITY_CANCEL_REMOTE)
    async def cancel_remote_task(self, input: CancelRemoteInput) -> None:
        """Cancel the task at its service, also if no attempt of its call is running."""
        with heartbeating(tuple, self._intervals):
            agent, endpoint = await self._agent(input.agent)
            try:
                service = await self._services.open(endpoint)
                task_id = input.task_id or await self._task_of(input.work_id, service)
                if task_id is not None:
                    await service.cancel(task_id)
                    _logger.info("remote task cancelled", extra={"remote": endpoint.service, "remote_task": task_id})
            except RemoteError as error:
                message = f"remote agent {agent.agent_id!r}: {error}"
                benign = ApplicationErrorCategory.BENIGN
                raise ApplicationError(message, type=error.kind.value, category=benign) from None

    async def _task_of(self, work_id: str, service: "RemoteService") -> str | None:
        """The task of a call; None if it has none."""
        info = activity.info()
        while True:
            call = await read_pending(self._client, info.workflow_id or "", info.workflow_run_id or "", work_id)
            if call is None or not call.is_running or call.task_id is not None:
                break
            await asyncio.sleep(PENDING_POLL_SECONDS)  # it is submitting: its heartbeat has the id within a second
        if call is not None and (call.task_id is not None or not call.may_be_sent):
            return call.task_id
        return await _find(work_id, call, service)

    async def _agent(self, digest: str) -> tuple[ResolvedAgent, Endpoint]:
        agent = await self._cache.agent(digest)
        assert agent.endpoint is not None  # only remote agents are called here
        return agent, agent.endpoint


async def _find(work_id: str, call: PendingCall | None, service: "RemoteService") -> str | None:
    """The task of a call that has ended meanwhile, or whose worker was lost, if the service lists it."""
    run_id = activity.info().workflow_run_id or ""
    context_id = (call.context_id if call else None) or ids.remote_context_id(run_id, work_id)
    try:
        found = await service.find(ids.remote_message_id(run_id, work_id), context_id)
    except RemoteError as error:
        if error.kind is not RemoteErrorKind.UNSUPPORTED:
            raise
        return None
    return found.task_id if found is not None else None
