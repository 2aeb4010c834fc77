"""Read a thread back from its own workflow history: every message stands there once, and inference inputs say where."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from temporalio import activity
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from wakeful.contract.agents import Resolution, ResolvedAgent
from wakeful.contract.errors import CallerError
from wakeful.contract.inference import InferInput, ModelResponse, Source
from wakeful.contract.messages import InputMessage, Message
from wakeful.contract.names import ACTIVITY_INFER, ACTIVITY_RESOLVE_AGENT, SIGNAL_SUBMIT
from wakeful.contract.requests import parse_request, parse_submission
from wakeful.contract.tools import ToolCallInput, tool_outcome
from wakeful.contract.transcript import assistant_message, tool_message

T = TypeVar("T")


@dataclass
class ThreadHistory:
    """What a history says about a thread."""

    inputs: tuple[InputMessage, ...] = ()
    submissions: list[tuple[InputMessage, ...]] = field(default_factory=list)
    agents: list[ResolvedAgent] = field(default_factory=list)
    results: dict[str, Message] = field(default_factory=dict)
    appended: list[Source] = field(default_factory=list)

    def transcript(self) -> Iterator[Message]:
        """Every entry that an inference has been told of, in order."""
        for source in self.appended:
            yield source if isinstance(source, Message) else self._find(source)

    def _find(self, source: str) -> Message:
        kind, *numbers = source.split(":")
        try:
            match kind:
                case "input":
                    return self.inputs[int(numbers[0])].as_message("")
                case "submit":
                    return self.submissions[int(numbers[0])][int(numbers[1])].as_message("")
                case _:
                    return self.results[source]
        except (KeyError, IndexError, ValueError) as error:
            raise ApplicationError(
                f"the transcript names {source!r}, which is not in the workflow's history", type="TranscriptMismatch"
            ) from error


async def read_history(client: Client) -> ThreadHistory:
    """The history of the workflow that scheduled the running activity."""
    info = activity.info()
    assert info.workflow_id is not None  # our activities are always scheduled by a workflow
    handle = client.get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    reader = _Reader(client)
    async for event in handle.fetch_history_events():
        await reader.read(event)
    return reader.thread


class _Reader:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._scheduled: dict[int, tuple[str, str, Payloads]] = {}
        self.thread = ThreadHistory()

    async def read(self, event: HistoryEvent) -> None:
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                started = event.workflow_execution_started_event_attributes
                self.thread.inputs = parse_request(await self._json(started.input)).messages
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                signaled = event.workflow_execution_signaled_event_attributes
                if signaled.signal_name == SIGNAL_SUBMIT:
                    self.thread.submissions.append(await self._submission(signaled.input))
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                scheduled = event.activity_task_scheduled_event_attributes
                kind = scheduled.activity_type.name
                self._scheduled[event.event_id] = (scheduled.activity_id, kind, scheduled.input)
                if kind == ACTIVITY_INFER:
                    self.thread.appended += (await self._one(scheduled.input, InferInput)).appended
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                completed = event.activity_task_completed_event_attributes
                id, kind, input = self._scheduled.pop(completed.scheduled_event_id)
                await self._completed(id, kind, input, completed.result)
            case _:
                pass

    async def _completed(self, id: str, kind: str, input: Payloads, result: Payloads) -> None:
        if kind == ACTIVITY_RESOLVE_AGENT:
            self.thread.agents.append((await self._one(result, Resolution)).agent)
        elif kind == ACTIVITY_INFER:
            self.thread.results[id] = assistant_message(await self._one(result, ModelResponse))
        else:
            call = (await self._one(input, ToolCallInput)).call
            outcome = tool_outcome(call.name, await self._json(result))
            self.thread.results[id] = tool_message(call.id, outcome.result)

    async def _submission(self, input: Payloads) -> tuple[InputMessage, ...]:
        try:
            return parse_submission(await self._json(input)).messages
        except CallerError:
            return ()  # the workflow refused it, so no source names it; it still counts

    async def _json(self, payloads: Payloads) -> object:
        decoded = await self._client.data_converter.decode(payloads.payloads)
        return decoded[0] if decoded else None

    async def _one(self, payloads: Payloads, kind: type[T]) -> T:
        value: T
        (value,) = await self._client.data_converter.decode(payloads.payloads, [kind])
        return value
