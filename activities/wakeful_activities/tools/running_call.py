"""A tool call while it runs: its context, what it shows and requests, and what becomes of an error that it raises."""

import asyncio
import copy
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ParamSpec

from pydantic import JsonValue
from temporalio import activity

from wakeful.authoring.hook_requests import HookRequests
from wakeful.authoring.state import State
from wakeful.authoring.tool import Tool
from wakeful.authoring.tool_context import ToolContext
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.hooks import HookEffects
from wakeful.contract.tools import ToolCallInput
from wakeful.telemetry.log_causes import log_failure
from wakeful.telemetry.tracing import error_type
from wakeful_activities.heartbeats import Heartbeats
from wakeful_activities.hooks.hook_run import OpenProfiles, checked_requests, effects_of
from wakeful_activities.tools.attempts import Attempts
from wakeful_activities.tools.emit import Emitter
from wakeful_activities.tools.live_output import LiveOutput

_logger = logging.getLogger("wakeful")

P = ParamSpec("P")


class RunningCall:
    """A call while it runs: its context, what it shows to watchers, and whether it is cancelled."""

    def __init__(
        self,
        input: ToolCallInput,
        profiles: OpenProfiles,
        deps: Any,
        metadata: Mapping[str, JsonValue],
        attempts: Attempts,
    ) -> None:
        self.input = input
        self.metadata = metadata
        self.attempts = attempts
        self._profiles = profiles
        self._deps = deps
        self.cancelled = threading.Event()
        self.beats: Heartbeats | None = None
        self._loop = asyncio.get_running_loop()
        self.emitter: Emitter | None = None
        self.requests = HookRequests()
        self.state = State(agent_id=input.identity.agent_id)
        self.error: str | None = None
        """The kind of error that the tool raised."""
        self.has_returned = False
        """The tool neither raised nor suspended: its state and its requests take effect."""
        self._shown = LiveOutput(input.identity, activity.info().attempt)

    def context(self) -> ToolContext[Any]:
        input = self.input
        return ToolContext(
            identity=input.identity,
            call_id=input.call.id,
            tool_name=input.call.name,
            arguments=input.call.arguments,
            idempotency_key=input.idempotency_key,
            attempt=activity.info().attempt,
            resume_input=input.resume,
            suspension_id=input.suspension_id,
            suspension_reason=input.suspension_reason,
            deps=self._deps,
            state=self.state,
            profiles=self._profiles(),
            last_checkpoint=self.attempts.last_checkpoint,
            checkpoint_sink=self._checkpoint,
            progress_sink=self._showing(self._shown.report),
            stream_sink=self._showing(self._shown.stream),
            activity_sink=self._showing(self._shown.show),
            patch_sink=self._showing(self._shown.patch),
            cancelled_source=self.cancelled.is_set,
            emit_sink=self._emit,
            requests=self.requests,
            message_sink=self._emit_message,
            metadata=copy.deepcopy(self.metadata),
        )

    def _showing(self, show: Callable[P, None]) -> Callable[P, None]:
        """Show something, and heartbeat it soon; from any thread."""

        def shown(*args: P.args, **kwargs: P.kwargs) -> None:
            show(*args, **kwargs)
            if self.beats is not None:
                self._loop.call_soon_threadsafe(self.beats.news)

        return shown

    def _checkpoint(self, value: JsonValue) -> None:
        self.attempts.checkpoint(value)
        if self.beats is not None:
            self._loop.call_soon_threadsafe(self.beats.needed)

    def _emit(self, event_type: str, payload: JsonValue) -> bool:
        return self.emitter is not None and self.emitter.emit(event_type, payload)

    def _emit_message(self, text: str) -> bool:
        return self.emitter is not None and self.emitter.emit("message", message=text)

    def failed(self, tool: Tool, error: Exception, problem: str) -> str:
        """What the model reads of an error that the tool raised.

        Raises:
            ApplicationError: Temporal retries the call.
        """
        self.error = error_type(error)
        failure = self.attempts.failure_to_retry(tool, error, problem)
        if failure is None:
            return self.attempts.counted(problem)
        delay = failure.next_retry_delay or timedelta()
        fields = {"tool": tool.name, "retry_in": f"{delay.total_seconds():.1f}s"}
        log_failure(_logger, "tool call is retried", error, extra=fields, level=logging.INFO)
        if self.beats is not None:
            self.beats.needed()
        raise failure from None

    def take_requests(self) -> str | None:
        """Take what the tool requests, and return the agent that it hands the run off to, if it does.

        Raises:
            ToolError: history cannot hold the requests.
        """
        if self.requests == HookRequests():  # most tools request nothing, and the check takes longer than many of them
            self.has_returned = True
            return None
        try:
            self.requests, _ = checked_requests(self.requests, self.state, counts_state=False)
        except ValueError as error:
            problem = f"the tool ran, but {error}"
            raise ToolError(problem, kind=ToolErrorKind.INTERNAL) from error
        self.has_returned = True
        handoff, self.requests.handoff = self.requests.handoff, None
        return handoff

    @property
    def effects(self) -> HookEffects | None:
        """What a tool without hooks requests of the loop; None if nothing."""
        if not self.has_returned or (self.requests == HookRequests() and not self.state.operations):
            return None
        effects = effects_of(self.requests, self.state)
        return effects if effects != HookEffects() else None

    def progress(self) -> Sequence[object]:
        """The details of the next heartbeat."""
        return self.attempts.details(self._shown.details())
