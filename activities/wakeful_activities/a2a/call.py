"""One attempt of a call: from the message to the answer, or to an error that tells Temporal when to poll again."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from pydantic import JsonValue
from temporalio import activity
from temporalio.exceptions import ApplicationError

from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent, RetryPolicy
from wakeful.contract.capabilities import A2A, Feature, unsupported
from wakeful.contract.inference import InferInput, ModelResponse, StopReason
from wakeful.contract.messages import ToolCall
from wakeful.contract.missing import Missing
from wakeful.contract.names import TOOL_REMOTE_INPUT
from wakeful.contract.remote import Endpoint, RemoteOrigin, RemoteState
from wakeful_activities.a2a import failures
from wakeful_activities.a2a.attempt import RemoteAttempt
from wakeful_activities.a2a.failures import RemoteError, RemoteErrorKind
from wakeful_activities.a2a.outgoing import Outgoing
from wakeful_activities.a2a.services import Services
from wakeful_activities.heartbeats import Heartbeats
from wakeful_activities.inference.answer import recordable
from wakeful_activities.inference.patience import LOST_WORKERS

if TYPE_CHECKING:
    from wakeful_activities.a2a.service import FollowedTask, RemoteService
    from wakeful_activities.a2a.snapshots import RemoteSnapshot

_logger = logging.getLogger("wakeful")

STREAM_SECONDS = 60.0
"""How long an attempt follows a task that streams, before it polls."""
LAST_WORDS_SECONDS = 10.0
"""How long an attempt that is cancelled may take to learn the task's id, and to cancel the task at its service."""


class _TooLate(Exception):
    """The answer has taken longer than the endpoint allows."""


class RemoteCall:
    """An attempt, with everything that it needs.

    Args:
        message: reads what the agent is sent from the conversation.
    """

    def __init__(
        self,
        input: InferInput,
        agent: ResolvedAgent,
        endpoint: Endpoint,
        attempt: RemoteAttempt,
        services: Services,
        beats: Heartbeats,
        message: Callable[[], Awaitable[Outgoing]],
    ) -> None:
        self._input = input
        self._agent = agent
        self._endpoint = endpoint
        self._attempt = attempt
        self._services = services
        self._beats = beats
        self._message = message
        self._service: RemoteService | None = None
        self._is_sent = False
        """The message may have left this process."""

    async def answered(self, *, stream_seconds: float) -> ModelResponse:
        """The agent's answer, or its question.

        Raises:
            ApplicationError: the task is at work, or failed; Temporal polls again, or retries, or neither.
        """
        self._check()
        try:
            service = self._service = await self._services.open(self._endpoint, heartbeat=self._leave)
            snapshot = await self._submitted(service)
            snapshot = await self._followed(service, snapshot, seconds=min(stream_seconds, self._seconds_left))
            return self._response(snapshot)
        except RemoteError as error:
            raise self._failure(error) from None
        except _TooLate:
            await self._cancel_task()
            raise self._timeout() from None
        except asyncio.CancelledError:
            cancelled = activity.cancellation_details()
            if cancelled is not None and cancelled.cancel_requested:
                await self._cancel_task()
            else:  # the worker stops: the next attempt continues from here
                self._attempt.report(may_be_sent=self._is_sent or self._attempt.may_be_sent)
                self._beats.beat()
            raise

    def _check(self) -> None:
        """Refuse what a remote agent cannot do, and calls that cost one worker after the other."""
        input, identity = self._input, self._input.identity
        # What a run brings along to a handoff was meant for the agent before.
        is_asked_for = identity is not None and identity.agent_id == self._agent.agent_id
        used: dict[Feature, bool] = {
            "overrides": input.overrides is not None,
            "frontend_tools": bool(input.frontend_tools),
        }
        lacking = unsupported([feature for feature, is_used in used.items() if is_used], A2A)
        if is_asked_for and lacking:
            raise failures.unsupported(self._agent.agent_id, lacking)
        if self._attempt.lost > LOST_WORKERS:
            message = f"its worker was lost {self._attempt.lost} times in a row; check the workers' memory and logs"
            raise ApplicationError(message, type="WorkersLost", non_retryable=True)

    def _leave(self, missing: Missing) -> None:
        self._attempt.missing = missing
        self._beats.beat()

    async def _submitted(self, service: "RemoteService") -> "RemoteSnapshot":
        """The task, which an earlier attempt has begun, or this one begins."""
        if self._attempt.task_id is not None:
            return self._learn(await service.read(self._attempt.task_id))
        self._check_time()
        message = await self._message()
        self._attempt.converse_in(message.context_id)
        if self._attempt.may_be_sent and (found := await self._found(service, message)) is not None:
            _logger.info("remote task found again", extra=self._named(found))
            return self._learn(found)
        return await self._send(service, message)

    async def _found(self, service: "RemoteService", message: Outgoing) -> "RemoteSnapshot | None":
        """The task that an earlier attempt has begun without learning its id, or the one that it has answered."""
        progress = self._attempt.progress
        if message.task_id is not None:
            task = await service.read(message.task_id, with_history=True)
            if progress.message_id in task.message_ids or not task.state.is_interrupted:
                return task
            scheduled = activity.info().scheduled_time.timestamp() * 1000
            has_asked_again = not task.message_ids and (task.state_since or 0) > scheduled
            return task if has_asked_again else None
        try:
            return await service.find(progress.message_id, progress.context_id, message.known_tasks)
        except RemoteError as error:
            if error.kind is not RemoteErrorKind.UNSUPPORTED:
                raise
        if self._endpoint.idempotent:
            return None
        raise failures.unknown_outcome(self._agent.agent_id)

    async def _send(self, service: "RemoteService", message: Outgoing) -> "RemoteSnapshot":
        from wakeful_activities.a2a.service import Sending  # it needs the extra

        progress = self._attempt.progress
        request = Sending(progress.message_id, progress.context_id, message.content, message.task_id)
        within = self._agent.inference_timeout_seconds
        self._is_sent = True
        sending = asyncio.ensure_future(service.send(request, within=within))
        try:
            snapshot = await asyncio.shield(sending)
        except asyncio.CancelledError:
            # The service may have the message: with the task's id, the task can be cancelled, or found again.
            with contextlib.suppress(RemoteError, TimeoutError):
                async with asyncio.timeout(LAST_WORDS_SECONDS):
                    self._learn(await sending)
            raise
        finally:
            sending.cancel()
        _logger.info("remote task submitted", extra=self._named(snapshot))
        return self._learn(snapshot)

    async def _followed(
        self, service: "RemoteService", snapshot: "RemoteSnapshot", *, seconds: float
    ) -> "RemoteSnapshot":
        """The task after the service has streamed what it does, for a minute at most; later attempts only poll."""
        task_id = snapshot.task_id
        if task_id is None or not snapshot.state.is_at_work or not service.can_stream or self._attempt.progress.polls:
            return snapshot
        task: FollowedTask | None = None
        with contextlib.suppress(RemoteError, TimeoutError):  # then it is polled
            async with asyncio.timeout(max(0.0, seconds)):
                async with contextlib.aclosing(service.follow(task_id)) as stream:
                    async for task in stream:
                        self._attempt.on_heartbeat = partial(self._learn_of, task)
                        self._beats.news()
                        if not task.state.is_at_work:
                            break
        self._attempt.on_heartbeat = None
        if task is not None and task.state.is_interrupted:
            return self._learn_of(task)
        # What was missed of the stream, the task has.
        return self._learn(await service.read(task_id))

    def _response(self, snapshot: "RemoteSnapshot") -> ModelResponse:
        agent_id = self._agent.agent_id
        match snapshot.state:
            case RemoteState.SUBMITTED | RemoteState.WORKING:
                self._check_time()
                self._attempt.outage = None
                self._attempt.report(polled=True)
                self._beats.beat()
                raise failures.pending(
                    agent_id,
                    self._attempt.progress,
                    poll_seconds=self._endpoint.poll_seconds,
                    left=self._seconds_left,
                )
            case RemoteState.COMPLETED:
                return self._answer(snapshot, text=snapshot.answer, output=snapshot.data, media=snapshot.files)
            case RemoteState.INPUT_REQUIRED | RemoteState.AUTH_REQUIRED:
                return self._question(snapshot)
            case RemoteState.FAILED:
                raise self._ended(f"remote agent {agent_id!r} failed", snapshot, "remote_failed")
            case RemoteState.REJECTED:
                raise self._ended(f"remote agent {agent_id!r} rejected the task", snapshot, "remote_rejected")
            case RemoteState.CANCELED:
                raise self._ended(f"the task of remote agent {agent_id!r} was cancelled", snapshot, "remote_cancelled")

    def _answer(self, snapshot: "RemoteSnapshot", **fields: object) -> ModelResponse:
        _logger.info("remote task ended", extra={**self._named(snapshot), "state": snapshot.state.value})
        identity, progress = self._input.identity, self._attempt.progress
        origin = RemoteOrigin(
            service=progress.service,
            thread_id=identity.thread_id if identity else "",
            context_id=progress.context_id,
            task_id=snapshot.task_id,
        )
        response = ModelResponse(model=self._agent.agent_id, remote=origin).model_copy(update=fields)
        return recordable(response)

    def _question(self, snapshot: "RemoteSnapshot") -> ModelResponse:
        """The question as a call, which waits for a decision; the next step sends the decision to the same task."""
        work = ids.parse_work(activity.info().activity_id)
        label = ids.step_label(work.step if isinstance(work, ids.Infer) else 0, self._input.lineage)
        arguments: dict[str, JsonValue] = {
            "question": snapshot.status_text or snapshot.text,
            "kind": "auth" if snapshot.state is RemoteState.AUTH_REQUIRED else "input",
            "task_id": snapshot.task_id,
            "context_id": self._attempt.progress.context_id,
        }
        call = ToolCall(id=ids.call_id(label, 1), name=TOOL_REMOTE_INPUT, arguments=arguments)
        return self._answer(snapshot, text=snapshot.text, tool_calls=(call,), stop_reason=StopReason.TOOL_USE)

    def _ended(self, what: str, snapshot: "RemoteSnapshot", type: str) -> ApplicationError:
        _logger.info("remote task ended", extra={**self._named(snapshot), "state": snapshot.state.value})
        return failures.final(what, f"{what}: {snapshot.answer}" if snapshot.answer else what, type)

    @property
    def _seconds_left(self) -> float:
        scheduled = activity.info().scheduled_time.timestamp()
        return scheduled + self._endpoint.timeout_seconds - time.time()

    def _check_time(self) -> None:
        if self._seconds_left <= 0:
            raise _TooLate

    def _learn_of(self, task: "FollowedTask") -> "RemoteSnapshot":
        return self._learn(task.read())

    def _learn(self, snapshot: "RemoteSnapshot") -> "RemoteSnapshot":
        is_new = self._attempt.task_id is None
        self._attempt.learn(
            task_id=snapshot.task_id,
            context_id=snapshot.context_id,
            state=snapshot.state.value,
            since=snapshot.state_since,
            text=snapshot.text,
        )
        if is_new and snapshot.task_id is not None:
            self._beats.beat()  # at once: if this worker is lost, the next one must know the task
        return snapshot

    def _failure(self, error: RemoteError) -> ApplicationError:
        attempt, policy = self._attempt, self._agent.retry or RetryPolicy()
        failure, attempt.outage = failures.failed_attempt(
            self._agent.agent_id, error, policy, attempt.outage, has_task=attempt.task_id is not None
        )
        attempt.report(may_be_sent=error.was_sent or attempt.may_be_sent)
        self._beats.beat()
        return failure

    def _timeout(self) -> ApplicationError:
        within = f"{self._endpoint.timeout_seconds:g} s"
        what = f"remote agent {self._agent.agent_id!r} has not answered within {within}"
        return failures.final(what, f"{what}: its task was cancelled", "timeout")

    async def _cancel_task(self) -> None:
        """Cancel the task at its service, as far as that is possible now."""
        if self._service is not None and self._attempt.task_id is not None:
            with contextlib.suppress(RemoteError, TimeoutError):
                async with asyncio.timeout(LAST_WORDS_SECONDS):
                    await self._service.cancel(self._attempt.task_id)

    def _named(self, snapshot: "RemoteSnapshot") -> dict[str, object]:
        return {"remote": self._endpoint.service, "remote_task": snapshot.task_id}
