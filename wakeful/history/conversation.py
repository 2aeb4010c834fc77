"""Rebuild a conversation from workflow history: inference inputs say where history records each message.

One execution at a time. What an execution was given by its predecessor is its base; the rest it recorded itself.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import assert_never

from pydantic import JsonValue
from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.client import Client

from wakeful.contract import ids, names
from wakeful.contract.agents import Resolution, ResolvedAgent, ResolveInput
from wakeful.contract.carryover import Carryover
from wakeful.contract.context import CompactionMark
from wakeful.contract.errors import CallerError, InternalError
from wakeful.contract.inference import CompactOutput, InferInput, ModelResponse, Rewind, Source, TranscriptTail
from wakeful.contract.mail import TaskEvent, mail_message
from wakeful.contract.messages import InputMessage, Message
from wakeful.contract.requests import parse_child_settled, parse_edit, parse_mail, parse_request, parse_submission
from wakeful.contract.segments import SegmentRef
from wakeful.contract.subagents import ChildResult, child_result_message, delegate_result
from wakeful.contract.tools import ToolStatus, tool_outcome
from wakeful.contract.transcript import assistant_message, tool_message
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments
from wakeful.history.moments import (
    ActivityCompleted,
    ActivityScheduled,
    ChildInitiated,
    HistoryMoment,
    SignalReceived,
    Started,
)
from wakeful.loop.calls.batch import FinishedCall
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.continue_as_new import ThreadSnapshot, unpack
from wakeful.loop.thread.opening import opened
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition, transcript_of
from wakeful.loop.thread.views import carryover, status_view

UNKNOWN_DIGEST = "?"


@dataclass(frozen=True)
class Report:
    """What another thread signalled, as the model reads it; `thread_id` if only that child may say it."""

    source: str
    thread_id: str | None
    message: Message


@dataclass
class Conversation:
    """What one execution's history says about its thread."""

    base: Transcript = field(default_factory=Transcript)
    segments: tuple[SegmentRef, ...] = ()
    """Where what precedes the base is archived."""
    inputs: tuple[InputMessage, ...] = ()
    submissions_before: int = 0
    """The `submit` signals of earlier executions."""
    submissions: list[tuple[InputMessage, ...]] = field(default_factory=list)
    agents: list[ResolvedAgent] = field(default_factory=list)
    metadata: list[Mapping[str, JsonValue]] = field(default_factory=list)
    """Of its runs."""
    results: dict[str, Message] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    children: set[str] = field(default_factory=set)
    """The threads of its sub-agents and tasks, as far as they may still report."""
    marks: dict[str, CompactionMark] = field(default_factory=dict)
    appended: list[Source] = field(default_factory=list)
    carryover: Carryover = field(default_factory=Carryover)
    """What the thread kept besides its conversation when the execution started."""
    moments: int = 0
    """How many events of its history were read."""

    def entries(self, *, through: TranscriptPosition | None = None) -> tuple[TranscriptPosition, list[Message]]:
        """The entries that inferences were given, in order, and the position of the first one.

        After a rollback to before the base, only the archive knows the digest of that position.

        Args:
            through: a fork from this position, or an earlier one, retains what was rolled back here afterwards.
        """
        start, entries = self.base.before, list(self.base.messages)
        for source in self.appended:
            if not isinstance(source, Rewind):
                entries.append(self._find(source))
            elif through is not None and source.rewind < through.length and _passes(through, start, entries):
                break
            elif source.rewind >= start.length:
                del entries[source.rewind - start.length :]
            else:
                start, entries = TranscriptPosition(source.rewind, UNKNOWN_DIGEST), []
        return start, entries

    def _find(self, source: str | Message) -> Message:
        if isinstance(source, Message):
            return source
        location = ids.parse_source(source)
        try:
            match location:
                case ids.FromInput(index=index):
                    return self.inputs[index].as_message("")
                case ids.FromSubmit(submission=number, index=index):
                    return self._submitted(number)[index].as_message("")
                case ids.FromChild() | ids.FromMail():
                    return self.results[source] if source in self.results else self._reported(source)
                case ids.FromActivity() | ids.FromSnapshot():
                    return self.results[source]
                case _:
                    assert_never(location)
        except (KeyError, IndexError) as error:
            raise InternalError(
                f"the transcript refers to {source!r}, which is not in the workflow's history"
            ) from error

    def _submitted(self, number: int) -> tuple[InputMessage, ...]:
        """The messages of the thread's n-th `submit` or `edit` signal, counted from 1."""
        place = number - self.submissions_before - 1
        if place < 0:
            raise IndexError(number)
        return self.submissions[place]

    def _reported(self, source: str) -> Message:
        """The first report under this id; after a rewind, another child may have reported under the same id."""
        reports = [report for report in self.reports if report.source == source]
        known = (report for report in reports if report.thread_id is None or report.thread_id in self.children)
        return next(known, reports[0]).message


def _passes(position: TranscriptPosition, start: TranscriptPosition, entries: list[Message]) -> bool:
    """Whether a conversation that starts at `start` passes through this very position."""
    return Transcript(tuple(entries), before=start).position_at(position.length) == position


async def read_conversation(client: Client, execution: ExecutionRef) -> Conversation:
    """Read what one execution has of its thread's conversation."""
    reader = ConversationReader(Payloads(client.data_converter), execution)
    async for moment in read_moments(client, execution):
        await reader.read(moment)
    return reader.conversation


class ConversationReader:
    """Takes the moments of one execution, in order."""

    def __init__(self, payloads: Payloads, execution: ExecutionRef) -> None:
        self._payloads = payloads
        self._execution = execution
        self.conversation = Conversation()

    async def read(self, moment: HistoryMoment) -> None:
        self.conversation.moments += 1
        match moment:
            case Started():
                with suppress(CallerError):  # the workflow has failed with that, and has no conversation
                    self._on_input(await self._payloads.json(moment.input))
            case SignalReceived():
                await self._on_signal(moment.signal, moment.input)
            case ChildInitiated(thread_id=thread_id):
                self.conversation.children.add(thread_id)
            case ActivityScheduled(activity_type=names.ACTIVITY_INFER | names.ACTIVITY_CALL_REMOTE):
                self.conversation.appended += (await self._payloads.value(moment.input, InferInput)).appended
            case ActivityScheduled(activity_type=names.ACTIVITY_RESOLVE_AGENT):
                self.conversation.metadata.append((await self._payloads.value(moment.input, ResolveInput)).metadata)
            case ActivityCompleted():
                with suppress(CallerError):  # the workflow took a malformed result for a failure
                    await self._on_completed(moment)
            case _:
                pass

    def _on_input(self, given: object) -> None:
        if isinstance(given, dict) and names.SNAPSHOT in given:
            self._continue(unpack(given[names.SNAPSHOT]))
            return
        request = parse_request(given)
        self.conversation.inputs = request.messages
        # A sub-agent keeps its place in the tree, and the rules of its ancestors.
        thread = opened(request, thread_id=self._execution.thread_id, run_id=self._execution.run_id)
        self.conversation.carryover = carryover(thread)

    def _continue(self, snapshot: ThreadSnapshot) -> None:
        conversation, thread = self.conversation, snapshot.thread
        conversation.base, conversation.segments = thread.transcript, snapshot.segments
        conversation.carryover = carryover(thread)
        conversation.submissions_before = thread.counters.submissions
        if thread.run is not None and thread.run.resolved is not None:
            conversation.agents.append(thread.run.resolved)
        if thread.run is not None:
            conversation.metadata.append(thread.run.metadata)
        conversation.results.update(_snapshot_results(thread))
        conversation.children.update(status_view(thread).children)
        if compaction := thread.context.compaction:
            conversation.marks[compaction.source] = compaction.mark

    async def _on_completed(self, moment: ActivityCompleted) -> None:
        conversation, id, result = self.conversation, moment.activity_id, moment.result
        match moment.activity_type:
            case names.ACTIVITY_RESOLVE_AGENT:
                if agent := (await self._payloads.value(result, Resolution)).agent:
                    conversation.agents.append(agent)
            case names.ACTIVITY_RESTORE:
                self._restore(await self._payloads.value(result, TranscriptTail))
            case names.ACTIVITY_COMPACT:
                if mark := (await self._payloads.value(result, CompactOutput)).mark:
                    conversation.marks[id] = mark
            case names.ACTIVITY_INFER | names.ACTIVITY_CALL_REMOTE:
                conversation.results[id] = assistant_message(await self._payloads.value(result, ModelResponse))
            case (
                names.ACTIVITY_DELIVER
                | names.ACTIVITY_HOOKS
                | names.ACTIVITY_DESCRIBE_WORKER
                | names.ACTIVITY_FIND_STOPPING
                | names.ACTIVITY_CANCEL_REMOTE
            ):
                pass
            case tool:
                work = ids.parse_work(id)
                if isinstance(work, ids.CallTool):
                    outcome = tool_outcome(tool, await self._payloads.json(result))
                    if outcome.result.status is not ToolStatus.PENDING:
                        conversation.results[id] = tool_message(work.call_id, outcome.result)

    def _restore(self, tail: TranscriptTail) -> None:
        self.conversation.base = transcript_of(tail)
        if (kept := tail.carryover) is not None:
            self.conversation.segments, self.conversation.carryover = kept.segments, kept
            self.conversation.submissions_before = kept.counters.submissions
            self.conversation.children.update(task.thread_id for task in kept.tasks if task.thread_id)
            if compaction := kept.compaction:
                self.conversation.marks[compaction.source] = compaction.mark
            for unread in kept.unread:
                self.conversation.results[ids.source(ids.FromSnapshot(unread.message.id))] = unread.message

    async def _on_signal(self, signal: str, input: RawPayloads) -> None:
        match signal:
            case names.SIGNAL_SUBMIT:
                self.conversation.submissions.append(await self._submission(input))
            case names.SIGNAL_EDIT:
                self.conversation.submissions.append(await self._edit(input))
            case names.SIGNAL_CHILD_SETTLED:
                with suppress(CallerError):  # the workflow rejected it, too, and no source refers to it
                    child = await self._payloads.signal(input, parse_child_settled)
                    self.conversation.reports.append(_child_report(child))
            case names.SIGNAL_DELIVER:
                with suppress(CallerError):
                    mail = await self._payloads.signal(input, parse_mail)
                    thread_id = mail.thread_id if isinstance(mail, TaskEvent) else None
                    source = ids.source(ids.FromMail(mail.message_id))
                    self.conversation.reports.append(Report(source, thread_id, mail_message(mail)))
            case _:
                pass

    async def _submission(self, input: RawPayloads) -> tuple[InputMessage, ...]:
        try:
            return (await self._payloads.signal(input, parse_submission)).messages
        except CallerError:
            return ()  # the workflow rejected it, so no source refers to it; it still counts

    async def _edit(self, input: RawPayloads) -> tuple[InputMessage, ...]:
        try:
            return ((await self._payloads.signal(input, parse_edit)).message,)
        except CallerError:
            return ()


def _child_report(child: ChildResult) -> Report:
    """A delegate's result is the result of its call; a task's is an event."""
    source = ids.source(ids.FromChild(child.work_id))
    work = ids.parse_work(child.work_id)
    if isinstance(work, ids.Delegate):
        return Report(source, child.thread_id, tool_message(work.call_id, delegate_result("", child)))
    return Report(source, child.thread_id, child_result_message(child))


def _snapshot_results(thread: Thread) -> dict[str, Message]:
    """What the execution was given with the snapshot, by the sources under which it may still be appended."""
    waiting = (*thread.queued, *thread.steering)
    results = {ids.source(ids.FromSnapshot(later.message.id)): later.message for later in waiting}
    if thread.batch is not None:
        asked_by = thread.batch.inference_id or ids.asking_inference(thread.batch.calls[0].call.id)
        if asked_by is not None:
            results[asked_by] = assistant_message(thread.batch.response)
        for call in thread.batch.calls:
            if isinstance(call, FinishedCall) and call.source is not None:
                results[call.source] = tool_message(call.call.id, call.result)
    return results
