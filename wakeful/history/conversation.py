"""Read a thread back from workflow history: every message stands there once, and inference inputs say where.

One execution at a time. What an execution was given by the one before it is its base; the rest it heard itself.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from wakeful.contract import names
from wakeful.contract.agents import Resolution, ResolvedAgent
from wakeful.contract.context import CompactionMark
from wakeful.contract.errors import CallerError, InternalError
from wakeful.contract.inference import CompactOutput, InferInput, ModelResponse, Rewind, Source, TranscriptTail
from wakeful.contract.mail import TaskEvent, mail_message
from wakeful.contract.messages import InputMessage, Message
from wakeful.contract.names import (
    ACTIVITY_COMPACT,
    ACTIVITY_DELIVER,
    ACTIVITY_INFER,
    ACTIVITY_RESOLVE_AGENT,
    ACTIVITY_RESTORE,
    CARRIED,
)
from wakeful.contract.requests import parse_mail, parse_request, parse_settled, parse_submission
from wakeful.contract.subagents import Settled, delegate_result, settled_message
from wakeful.contract.tools import tool_outcome
from wakeful.contract.transcript import assistant_message, tool_message
from wakeful.loop.calls.batch import SettledCall
from wakeful.loop.machine.state import RunState
from wakeful.loop.thread.continue_as_new import unpack
from wakeful.loop.thread.transcript import Mark, Transcript, transcript_of
from wakeful.loop.thread.views import status_view

T = TypeVar("T")

UNKNOWN_DIGEST = "?"
LOCAL_ACTIVITY_MARKER = "core_local_activity"
DELEGATE = "child"


@dataclass(frozen=True)
class Place:
    """An execution: which thread's, and which of them (a Temporal run id)."""

    thread_id: str
    run_id: str


@dataclass
class Execution:
    """What one execution's history says about its thread."""

    base: Transcript = field(default_factory=Transcript)
    earlier: Place | None = None
    """Who has what stands before its base; of a fork, an execution of the thread that it was forked from."""
    inputs: tuple[InputMessage, ...] = ()
    submissions: list[tuple[InputMessage, ...]] = field(default_factory=list)
    agents: list[ResolvedAgent] = field(default_factory=list)
    results: dict[str, Message] = field(default_factory=dict)
    heard: list["Heard"] = field(default_factory=list)
    children: set[str] = field(default_factory=set)
    """The threads that were started for it, as far as they may still speak."""
    marks: dict[str, CompactionMark] = field(default_factory=dict)
    appended: list[Source] = field(default_factory=list)

    def entries(self, *, through: Mark | None = None) -> tuple[Mark, list[Message]]:
        """What inferences were told of, in order, and the place in the thread where it begins.

        After a rollback to before this execution, only an earlier one knows the digest of that place.

        Args:
            through: who was forked off at this place, or before, has what came before it, although it is undone here.
        """
        start, entries = self.base.before, list(self.base.messages)
        for source in self.appended:
            if not isinstance(source, Rewind):
                entries.append(self._find(source))
            elif through is not None and source.rewind < through.length and _is_at(through, start, entries):
                break
            elif source.rewind >= start.length:
                del entries[source.rewind - start.length :]
            else:
                start, entries = Mark(source.rewind, UNKNOWN_DIGEST), []
        return start, entries

    def _find(self, source: str | Message) -> Message:
        if isinstance(source, Message):
            return source
        kind, *numbers = source.split(":")
        try:
            match kind:
                case "input":
                    return self.inputs[int(numbers[0])].as_message("")
                case "submit":
                    return self.submissions[int(numbers[0])][int(numbers[1])].as_message("")
                case names.SIGNAL_SETTLED | names.SIGNAL_DELIVER if source not in self.results:
                    return self._spoken(source)
                case _:
                    return self.results[source]
        except (KeyError, IndexError, ValueError) as error:
            raise InternalError(f"the transcript names {source!r}, which is not in the workflow's history") from error

    def _spoken(self, source: str) -> Message:
        """What came first under a name; names of children that a rewind has undone are taken again by others."""
        said = [heard for heard in self.heard if heard.source == source]
        known = (heard for heard in said if heard.speaker is None or heard.speaker in self.children)
        return next(known, said[0]).message


@dataclass(frozen=True)
class Heard:
    """What came from another thread, as its source and as the model reads it; `speaker` if only a child may say it."""

    source: str
    speaker: str | None
    message: Message


def _is_at(place: Mark, start: Mark, entries: list[Message]) -> bool:
    """Whether a conversation that begins at `start` comes past this very place."""
    return Transcript(tuple(entries), before=start).mark_at(place.length) == place


async def read_execution(client: Client, workflow_id: str, run_id: str | None) -> Execution:
    """Read one execution of a thread's workflow."""
    reader = _Reader(client, workflow_id)
    async for event in client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history_events():
        await reader.read(event)
    return reader.execution


class _Reader:
    def __init__(self, client: Client, thread_id: str) -> None:
        self._client = client
        self._thread_id = thread_id
        self._scheduled: dict[int, tuple[str, str]] = {}
        self.execution = Execution()

    async def read(self, event: HistoryEvent) -> None:
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                started = event.workflow_execution_started_event_attributes
                self._goes_on_from(started.continued_execution_run_id)
                self._begin(await self._json(started.input))
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                signaled = event.workflow_execution_signaled_event_attributes
                await self._signalled(signaled.signal_name, signaled.input)
            case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
                child = event.start_child_workflow_execution_initiated_event_attributes
                self.execution.children.add(child.workflow_id)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                scheduled = event.activity_task_scheduled_event_attributes
                kind = scheduled.activity_type.name
                self._scheduled[event.event_id] = (scheduled.activity_id, kind)
                if kind == ACTIVITY_INFER:
                    self.execution.appended += (await self._one(scheduled.input, InferInput)).appended
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                completed = event.activity_task_completed_event_attributes
                id, kind = self._scheduled.pop(completed.scheduled_event_id)
                await self._completed(id, kind, completed.result)
            case EventType.EVENT_TYPE_MARKER_RECORDED:
                marker = event.marker_recorded_event_attributes
                if marker.marker_name == LOCAL_ACTIVITY_MARKER and "result" in marker.details:
                    told = json.loads(marker.details["data"].payloads[0].data)
                    await self._completed(told["activity_id"], told["activity_type"], marker.details["result"])
            case _:
                pass

    def _begin(self, given: object) -> None:
        if not (isinstance(given, dict) and CARRIED in given):
            request = parse_request(given)
            self.execution.inputs = request.messages
            self._goes_on_from(request.restore_from)
            if request.fork is not None:
                self.execution.earlier = Place(request.fork.thread_id, request.fork.run_id)
            return
        state = unpack(given[CARRIED]).state
        self.execution.base = state.transcript
        if state.resolved is not None:
            self.execution.agents.append(state.resolved)
        self.execution.results.update(_carried_results(state))
        self.execution.children.update(status_view(state).children)
        if compaction := state.context.compaction:
            self.execution.marks[compaction.source] = compaction.mark

    def _goes_on_from(self, run_id: str | None) -> None:
        self.execution.earlier = Place(self._thread_id, run_id) if run_id else None

    async def _completed(self, id: str, kind: str, result: Payloads) -> None:
        if kind == ACTIVITY_RESOLVE_AGENT:
            self.execution.agents.append((await self._one(result, Resolution)).agent)
        elif kind == ACTIVITY_RESTORE:
            tail = await self._one(result, TranscriptTail)
            self.execution.base = transcript_of(tail)
            tasks = tail.keeps.tasks if tail.keeps else ()
            self.execution.children.update(task.thread_id for task in tasks if task.thread_id)
        elif kind == ACTIVITY_DELIVER:
            pass
        elif kind == ACTIVITY_COMPACT:
            if mark := (await self._one(result, CompactOutput)).mark:
                self.execution.marks[id] = mark
        elif kind == ACTIVITY_INFER:
            self.execution.results[id] = assistant_message(await self._one(result, ModelResponse))
        else:
            outcome = tool_outcome(kind, await self._json(result))
            self.execution.results[id] = tool_message(call_id(id), outcome.result)

    async def _signalled(self, name: str, input: Payloads) -> None:
        match name:
            case names.SIGNAL_SUBMIT:
                self.execution.submissions.append(await self._submission(input))
            case names.SIGNAL_SETTLED | names.SIGNAL_DELIVER:
                with suppress(CallerError):  # the workflow did not understand it either, and no source names it
                    self.execution.heard.append(_heard(name, await self._json(input)))
            case _:
                pass

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


def call_id(work_id: str) -> str:
    """The tool call that work was for: `tool-<call>`, or `tool.2-<call>` after a decision."""
    return work_id.partition("-")[2]


def _heard(signal: str, written: object) -> Heard:
    if signal == names.SIGNAL_DELIVER:
        mail = parse_mail(written)
        speaker = mail.thread_id if isinstance(mail, TaskEvent) else None
        return Heard(f"{signal}:{mail.message_id}", speaker, mail_message(mail))
    settled = parse_settled(written)
    return Heard(f"{signal}:{settled.work_id}", settled.thread_id, _end_of(settled))


def _end_of(settled: Settled) -> Message:
    """A delegate's end is the result of its call, `child-<call>` or `child.2-<call>`; a task's is an event."""
    if settled.work_id.partition("-")[0].partition(".")[0] == DELEGATE:
        return tool_message(call_id(settled.work_id), delegate_result("", settled))
    return settled_message(settled)


def _carried_results(state: RunState) -> dict[str, Message]:
    """What was already there when the execution began, under the names by which it may still be appended."""
    results = {f"carried:{waits.message.id}": waits.message for waits in (*state.queued, *state.steering)}
    if state.batch is not None:
        results[state.batch.inference_id] = assistant_message(state.batch.response)
        for call in state.batch.calls:
            if isinstance(call, SettledCall) and call.source is not None:
                results[call.source] = tool_message(call.call.id, call.result)
    return results
