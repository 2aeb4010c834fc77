"""What a thread counts, made from what the loop emits. A replay counts nothing, nor does a reader of history."""

from collections.abc import Mapping
from typing import Protocol

from temporalio import workflow

from wakeful.contract.events import (
    AgentEvent,
    SignalRefused,
    StepEnd,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
)
from wakeful.contract.names import (
    PUBLIC_SIGNALS,
    RECIPIENT_NOT_FOUND,
    RECIPIENT_OF_OTHER_TENANT,
    RECIPIENT_UNAVAILABLE,
    TRANSPORT_FAILED,
)
from wakeful.contract.runs import Errored, RunResult, outcome_of, reason_code
from wakeful.loop.machine.facts import AgentResolved, Fact
from wakeful.loop.machine.state import Advance, Thread
from wakeful.telemetry import instruments, names
from wakeful.telemetry.instruments import Instrument
from wakeful_workflows.ended_suspensions import Suspensions

_REASONS = frozenset({RECIPIENT_NOT_FOUND, RECIPIENT_UNAVAILABLE, RECIPIENT_OF_OTHER_TENANT, TRANSPORT_FAILED})


def run_metrics(metrics: "MetricsPort | None") -> "RunMetrics | None":
    """What counts this workflow's runs; None if its worker records no metrics."""
    return None if metrics is None else RunMetrics(metrics)


class MetricsPort(Protocol):
    """What the worker provides of `wakeful.telemetry.metrics.Metrics`."""

    def record(self, instrument: Instrument, value: float, labels: Mapping[str, str | None]) -> None: ...
    def count(self, instrument: Instrument, labels: Mapping[str, str | None]) -> None: ...


class RunMetrics:
    """Follows a thread, and counts what is new."""

    def __init__(self, metrics: MetricsPort) -> None:
        self._metrics = metrics
        self._suspensions = Suspensions()

    def take(self, before: Thread | None, made: Advance, fact: Fact | None) -> None:
        """Count what one fact, or the opening of the thread, has caused."""
        ended = list(self._suspensions.take(before, made.thread, fact))
        if workflow.unsafe.is_replaying():
            return
        now = workflow.time()
        for suspension in ended:
            tool = _tool(before, suspension.call.call.name)
            labels = {names.TOOL_NAME: tool, names.DECISION_ACTION: suspension.action}
            self._metrics.record(instruments.SUSPENSIONS, max(0.0, now - suspension.call.since / 1000), labels)
        for event in made.events:
            self._count_event(event, before, made.thread)
        known = self._count_start(before, fact)
        for result in made.ended:
            if result.run_id != known:
                self._metrics.count(instruments.RUNS_STARTED, {names.AGENT: instruments.OTHER})
            self._count_end(result, before, now, agent=result.agent_id if result.run_id == known else instruments.OTHER)
        self._count_undelivered(before, made.thread)

    def on_rejected(self, result: RunResult) -> None:
        """A run ended that never began: its request is malformed, or its past cannot be restored."""
        if not workflow.unsafe.is_replaying():
            self._count_end(result, None, 0, agent=instruments.OTHER)

    def on_continue_as_new(self, thread: Thread) -> None:
        if not workflow.unsafe.is_replaying():
            self._metrics.count(instruments.CONTINUED, {names.AGENT: thread.identity.agent_id})

    def _count_start(self, before: Thread | None, fact: Fact | None) -> str | None:
        """The run whose agent is known, if one is under way. It is counted when the agent is found, not when it begins.

        Anyone can start runs of agents that do not exist, and each of their names would be a time series.
        """
        if before is None or before.run is None:
            return None
        is_found = isinstance(fact, AgentResolved)
        if is_found and before.run.resolved is None:
            self._metrics.count(instruments.RUNS_STARTED, {names.AGENT: before.identity.agent_id})
        return before.identity.run_id if is_found or before.run.resolved is not None else None

    def _count_event(self, event: AgentEvent, before: Thread | None, after: Thread) -> None:
        match event:
            case StepEnd():
                agent = (before or after).identity.agent_id
                self._metrics.count(instruments.STEPS, {names.AGENT: agent})
            case ToolCallDone(outcome=ToolCallOutcome.SUSPENDED):
                pass
            case ToolCallDone(outcome=outcome, result=result):
                self._count_call(after, result.tool_name, outcome)
            case ToolCallResumed(target_id=id, outcome=outcome):
                call = before.batch.find(id) if before and before.batch else None
                self._count_call(after, call.call.name if call else "", outcome)
            case ToolCallCancel(id=id, name=name) if before and before.batch and before.batch.find(id):
                self._count_call(after, name, names.CANCELLED)
            case SignalRefused(signal=signal):
                known = signal if signal in PUBLIC_SIGNALS else instruments.OTHER
                self._metrics.count(instruments.REFUSED, {instruments.SIGNAL: known})
            case _:
                pass

    def _count_call(self, thread: Thread, name: str, outcome: str) -> None:
        self._metrics.count(instruments.TOOL_CALLS, {names.TOOL_NAME: _tool(thread, name), names.TOOL_OUTCOME: outcome})

    def _count_end(self, result: RunResult, before: Thread | None, now: float, *, agent: str) -> None:
        labels = {names.AGENT: agent, names.OUTCOME: outcome_of(result.termination)}
        self._metrics.count(instruments.RUNS_ENDED, labels)
        began = before.run.started_at / 1000 if before and before.run and before.run.started_at else now
        error = reason_code(result.termination) if isinstance(result.termination, Errored) else None
        self._metrics.record(instruments.RUN_DURATION, max(0.0, now - began), {**labels, names.ERROR_TYPE: error})

    def _count_undelivered(self, before: Thread | None, after: Thread) -> None:
        known = before.mail.undelivered if before else ()
        if after.mail.undelivered == known:
            return
        for message in after.mail.undelivered:
            if message not in known:
                reason = message.error.partition(":")[0]
                known_reason = reason if reason in _REASONS else instruments.OTHER
                self._metrics.count(instruments.UNDELIVERED, {instruments.REASON: known_reason})


def _tool(thread: Thread | None, name: str) -> str:
    """The name, if it is that of a tool of the agent: a model makes names up, and a client those of frontend tools."""
    agent = thread.run.resolved if thread is not None and thread.run is not None else None
    return name if agent is not None and any(tool.id == name for tool in agent.tools) else instruments.OTHER
