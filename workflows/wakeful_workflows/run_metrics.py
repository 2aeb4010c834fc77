"""What a thread counts, made from what the loop emits. A replay counts nothing, nor does a reader of history."""

from collections.abc import Mapping
from typing import Protocol

from temporalio import workflow

from wakeful.contract.events import (
    AgentEvent,
    RunStart,
    SignalRefused,
    StepEnd,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
)
from wakeful.contract.names import PUBLIC_SIGNALS
from wakeful.contract.runs import Errored, RunResult, outcome_of, reason_code
from wakeful.loop.machine.facts import Fact
from wakeful.loop.machine.state import Advance, Thread
from wakeful.telemetry import instruments, names
from wakeful.telemetry.instruments import Instrument
from wakeful_workflows.ended_suspensions import Suspensions


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
            labels = {names.TOOL_NAME: suspension.call.call.name, names.DECISION_ACTION: suspension.action}
            self._metrics.record(instruments.SUSPENSIONS, max(0.0, now - suspension.call.since / 1000), labels)
        for event in made.events:
            self._count_event(event, before, made.thread)
        for result in made.ended:
            self._count_end(result, before, now)
        self._count_undelivered(before, made.thread)

    def on_rejected(self, result: RunResult) -> None:
        """A run ended that never began: its request is malformed, or its past cannot be restored."""
        if not workflow.unsafe.is_replaying():
            self._count_end(result, None, 0)

    def on_continue_as_new(self, thread: Thread) -> None:
        if not workflow.unsafe.is_replaying():
            self._metrics.count(instruments.CONTINUED, {names.AGENT: thread.identity.agent_id})

    def _count_event(self, event: AgentEvent, before: Thread | None, after: Thread) -> None:
        match event:
            case RunStart(run_id=run_id) if before is None or before.run is None or before.identity.run_id != run_id:
                self._metrics.count(instruments.RUNS_STARTED, {names.AGENT: after.identity.agent_id})
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
        tool = name if thread.tool(name) else instruments.OTHER  # a model may make up any number of names
        self._metrics.count(instruments.TOOL_CALLS, {names.TOOL_NAME: tool, names.TOOL_OUTCOME: outcome})

    def _count_end(self, result: RunResult, before: Thread | None, now: float) -> None:
        labels = {names.AGENT: result.agent_id, names.OUTCOME: outcome_of(result.termination)}
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
                self._metrics.count(instruments.UNDELIVERED, {instruments.REASON: reason})
