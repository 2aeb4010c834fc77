"""The spans of a thread's runs, made from what the loop emits: parts of runs, steps, decisions, waits, and tool calls
that no activity of ours executes. Activities make the others.

Off, unless the worker's runner provides a tracing (`wakeful/telemetry/workflow_runner.py`): readers of history, the
SDK's replayer and the simulation have none. A span is emitted once, when it has ended, and never in a replay. Nothing
here changes a command: trace contexts travel in headers, which the estimate of history's size does not count.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

from pydantic import JsonValue
from temporalio import workflow

from wakeful.contract import ids, names
from wakeful.contract.events import (
    AgentEvent,
    Handoff,
    MailArrived,
    MessageReceived,
    MessagesRead,
    RunStart,
    StepEnd,
    StepStart,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallReady,
    ToolCallResumed,
)
from wakeful.contract.runs import RunResult
from wakeful.loop.machine.commands import CallTool, Command, Infer, RunHooks, StartChild, StartTask
from wakeful.loop.machine.facts import Fact
from wakeful.loop.machine.stages import AwaitingBudget, AwaitingTasks
from wakeful.loop.machine.state import Advance, Thread
from wakeful.telemetry import names as otel
from wakeful.telemetry.spans import Carrier, SpanEvent, SpanLink, SpanRecord, SpanRef, ref_of, take_baggage
from wakeful_workflows.ended_suspensions import EndedSuspension, Suspensions
from wakeful_workflows.run_spans import (
    OpenCall,
    OpenRun,
    OpenStep,
    OpenWait,
    Sender,
    TraceCarryover,
    about,
    call_span,
    decision_span,
    part_span,
    step_span,
    wait_span,
)


def run_trace(tracing: "TracingPort | None") -> "RunTrace | None":
    """The trace of this workflow's runs; None if its worker does not trace."""
    if tracing is None:
        return None
    info = workflow.info()
    header = info.headers.get(names.HEADER_TRACE)
    carried = TraceCarryover.load(header) if header else TraceCarryover()
    return RunTrace(tracing, info.workflow_id, carried)


class TracingPort(Protocol):
    """What the worker provides of `wakeful.telemetry.tracing.Tracing`."""

    def carrier(self) -> Carrier | None: ...
    def root(self, parent: SpanRef | None, name: str, *about: object) -> SpanRef: ...
    def within(self, ref: SpanRef, base: Carrier | None = None) -> AbstractContextManager[None]: ...
    def emit(self, record: SpanRecord, base: Carrier | None = None) -> None: ...
    def tool_content(self, arguments: JsonValue, result: object) -> Mapping[str, str]: ...


class RunTrace:
    """The open spans of a thread, and who sent what it has not read yet."""

    def __init__(self, tracing: TracingPort, thread_id: str, carried: TraceCarryover) -> None:
        self._tracing = tracing
        self._thread_id = thread_id
        self._run = carried.run.continued(_now()) if carried.run else None
        self._senders = dict(carried.senders)
        """By the id of the message, as long as no run has read it."""
        self._suspensions = Suspensions()
        self._sent: dict[int, tuple[Fact, Carrier]] = {}
        """Who sent the facts that are not handled yet. A fact may hold JSON, and can be no key itself."""

    @property
    def trace_id(self) -> str | None:
        """Of the newest run, as log lines show it."""
        return None if self._run is None else f"{self._run.root.trace_id:032x}"

    def on_sent(self, fact: Fact) -> None:
        """A signal has brought a fact; Temporal's interceptor has made its sender's context current."""
        if (sender := self._tracing.carrier()) is not None:
            self._sent[id(fact)] = (fact, sender)

    def performing(self, command: Command) -> AbstractContextManager[None]:
        """The context in which a command is performed: its header names the span that the command belongs to."""
        if self._run is None:
            return nullcontext()
        return self._tracing.within(_span_of(self._run, command), self._run.base)

    def take(self, before: Thread | None, made: Advance, fact: Fact | None) -> None:
        """Follow the thread through one fact; without one, through its opening."""
        now = _now()
        sender = self._tracing.carrier() if fact is None else self._sent.pop(id(fact), (fact, None))[1]
        for ended in self._suspensions.take(before, made.thread, fact, sender):
            self._end_suspension(ended, now)
        results = {result.run_id: result for result in made.ended}
        for event in made.events:
            if isinstance(event, RunStart):
                if self._run is None or self._run.run_id != event.run_id:  # else it continues after a pause
                    self._end_run(results, now)  # the run before
                    self._begin_run(event, made.thread, sender, now)
            else:
                self._take_event(event, made.thread, sender, now)
        if made.thread.batch is None:  # else calls of the step are suspended, for which watchers see the step end
            self._end_step(now)
        self._end_run(results, now)
        self._take_wait(made.thread, now)
        self._take_commands(made)

    def carryover(self) -> dict[str, Any]:
        """What the next execution has to know, as JSON; the run's part in this one ends."""
        if self._run is not None and not self._run.has_ended:
            self._emit(part_span(self._run, _now()))
        return TraceCarryover(self._run, self._senders).dump()

    def _take_event(self, event: AgentEvent, thread: Thread, sender: Carrier | None, now: int) -> None:
        run = self._run
        match event:
            case MessageReceived(message=message) if sender is not None:
                self._senders[message.id] = Sender(sender)
            case MailArrived(message_id=message_id) if sender is not None:
                self._senders[message_id] = Sender(sender, is_agent=True)
            case MessagesRead(message_ids=message_ids) if run is not None:
                run.links += _sender_links(self._take_senders(message_ids))
            case StepStart() if run is not None:
                self._end_step(now)
                label = ids.step_label(thread.counters.steps, thread.counters.lineage)
                run.step = OpenStep(label, thread.current.step.number, run.part, now, thread.agent.agent_id)
            case StepEnd(discarded=discarded) if run is not None and run.step is not None:
                run.step = replace(run.step, has_ended=True, discarded=discarded)
            case Handoff(from_agent=previous, to_agent=following) if run is not None:
                named = {otel.HANDOFF_FROM: previous, otel.HANDOFF_TO: following}
                run.events.append(SpanEvent(otel.EVENT_HANDOFF, now, named))
            case ToolCallReady(id=id, name=name, arguments=arguments) if run is not None and run.step is not None:
                run.calls[id] = OpenCall(name, now, run.step.label, arguments)
            case ToolCallDone(outcome=ToolCallOutcome.SUSPENDED):
                pass
            case ToolCallDone(id=id, outcome=outcome, result=result):
                self._end_call(id, outcome, result.text, now)
            case ToolCallResumed(target_id=id, outcome=outcome, result=result):
                self._end_call(id, outcome, result, now)
            case ToolCallCancel(id=id):
                self._end_call(id, otel.CANCELLED, None, now)
            case _:
                pass

    def _begin_run(self, event: RunStart, thread: Thread, sender: Carrier | None, now: int) -> None:
        """A client's message is the parent of the run that it begins. An agent's is linked to: it begins a trace."""
        senders = self._take_senders(event.message_ids)
        of_clients = [each.carrier for each in senders if not each.is_agent]
        base = parent = of_clients[0] if of_clients else None if event.message_ids else sender
        origin, base = take_baggage(base, otel.BAGGAGE_ORIGIN) if base else (None, None)
        agent = thread.identity.agent_id
        root = self._tracing.root(ref_of(base), f"{otel.INVOKE_AGENT} {agent}", self._thread_id, event.run_id)
        self._run = OpenRun(self._thread_id, event.run_id, agent, root, began=now, since=now, base=base)
        self._run.about = about(thread.identity)
        self._run.links += _sender_links(each for each in senders if each.carrier is not parent)
        if (forked := ref_of({"traceparent": origin or ""})) is not None:
            self._run.links.append(SpanLink(forked, otel.LINK_ORIGIN))

    def _take_senders(self, message_ids: Iterable[str]) -> list[Sender]:
        return [sender for id in message_ids if (sender := self._senders.pop(id, None)) is not None]

    def _end_step(self, now: int) -> None:
        run = self._run
        if run is not None and run.step is not None and run.step.has_ended:
            self._emit(step_span(run, run.step, now))
            run.step = None

    def _end_run(self, results: Mapping[str, RunResult], now: int) -> None:
        run = self._run
        if run is not None and not run.has_ended and (result := results.get(run.run_id)) is not None:
            self._end_step(now)
            self._emit(part_span(run, now, result))
            run.has_ended = True  # what it still sends belongs to it

    def _end_call(self, call_id: str, outcome: str, result: object, now: int) -> None:
        run = self._run
        if run is not None and (call := run.calls.pop(call_id, None)) is not None:
            content = self._tracing.tool_content(call.arguments, result)
            self._emit(call_span(run, call_id, call, outcome, now, content))

    def _end_suspension(self, ended: EndedSuspension, now: int) -> None:
        if self._run is not None and self._run.step is not None:
            self._emit(decision_span(self._run, ended, self._run.step.label, now))

    def _take_wait(self, thread: Thread, now: int) -> None:
        """Emit how long the run has waited for tasks or for budget, when it does so no longer."""
        run = self._run
        if run is None:
            return
        wait = None
        if isinstance(thread.stage, AwaitingTasks):
            wait = OpenWait(otel.SPAN_TASKS, now)
        elif isinstance(thread.stage, AwaitingBudget):
            wait = OpenWait(otel.SPAN_BUDGET, now, thread.stage.field)
        if run.wait is not None and (wait is None or wait.name != run.wait.name):
            self._emit(wait_span(run, run.wait, now))
            run.wait = None
        run.wait = run.wait or wait

    def _take_commands(self, made: Advance) -> None:
        for command in made.commands:
            if self._run is not None and isinstance(command, CallTool) and command.tool.task_queue is None:
                self._run.calls.pop(command.call.id, None)  # its activity makes the span

    def _emit(self, record: SpanRecord) -> None:
        if not workflow.unsafe.is_replaying():
            self._tracing.emit(record, self._run.base if self._run else None)


def _span_of(run: OpenRun, command: Command) -> SpanRef:
    match command:
        case StartChild(request=request) if request.parent_tool_call_id is not None:
            return run.call_ref(request.parent_tool_call_id)
        case StartTask(call=call):
            return run.call_ref(call.id)
        case CallTool(call=call, tool=tool) if tool.task_queue is not None:
            return run.call_ref(call.id)
        case Infer() | CallTool() | RunHooks():
            return run.current_ref
        case _:
            return run.part_ref(run.part)


def _sender_links(senders: Iterable[Sender]) -> list[SpanLink]:
    return [SpanLink(ref, otel.LINK_SENDER) for sender in senders if (ref := ref_of(sender.carrier)) is not None]


def _now() -> int:
    return workflow.time_ns()
