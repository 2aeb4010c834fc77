"""The open spans of a run, which continue-as-new passes on in a header, and the span that each becomes when it ends."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import JsonValue, TypeAdapter
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

from wakeful.contract.runs import Errored, RunIdentity, RunResult, outcome_of, reason_code
from wakeful.telemetry import names
from wakeful.telemetry.attributes import usage_attributes
from wakeful.telemetry.spans import Carrier, SpanEvent, SpanLink, SpanRecord, SpanRef, Value, ref_of, span_id
from wakeful_workflows.ended_suspensions import EndedSuspension

SECOND = 1_000_000_000

KEPT_SENDERS = 20
"""Of how many messages that no run has read the next execution knows the senders."""


@dataclass(frozen=True)
class Sender:
    """The context in which a message was sent, by a client or by another agent."""

    carrier: Carrier
    is_agent: bool = False


@dataclass(frozen=True)
class OpenStep:
    label: str
    number: int
    part: int
    """In which the step began."""
    since: int
    agent: str
    has_ended: bool = False
    """For watchers; its suspended calls are not finished yet."""
    discarded: bool = False


@dataclass(frozen=True)
class OpenCall:
    """A call that no activity of ours executes, as far as is known yet."""

    name: str
    since: int
    step: str
    """The label of its step."""
    arguments: JsonValue = None
    """Not passed on."""


@dataclass(frozen=True)
class OpenWait:
    """The run waits for its tasks, or for budget."""

    name: str
    since: int
    field: str = ""


@dataclass
class OpenRun:
    """A run, and its part in this execution."""

    thread_id: str
    run_id: str
    agent: str
    root: SpanRef
    """Of its first part."""
    began: int
    since: int
    """When the part began."""
    base: Carrier | None = None
    """The context of the message that began the run: its span is the run's parent."""
    part: int = 1
    about: dict[str, str] = field(default_factory=dict)
    """What does not change: the parent, the tenant."""
    step: OpenStep | None = None
    calls: dict[str, OpenCall] = field(default_factory=dict)
    wait: OpenWait | None = None
    links: list[SpanLink] = field(default_factory=list)
    events: list[SpanEvent] = field(default_factory=list)
    has_ended: bool = False

    def ref(self, *about: object) -> SpanRef:
        return SpanRef(self.root.trace_id, span_id(self.thread_id, self.run_id, *about), self.root.is_sampled)

    def part_ref(self, part: int) -> SpanRef:
        return self.root if part == 1 else self.ref("part", part)

    def step_ref(self, label: str) -> SpanRef:
        return self.ref("step", label)

    def call_ref(self, call_id: str) -> SpanRef:
        return self.ref("call", call_id)

    @property
    def parent(self) -> SpanRef | None:
        """Of its parts: the span that sent the message that began it; or the first part, which is the root."""
        return ref_of(self.base) or (self.root if self.part > 1 else None)

    @property
    def current_ref(self) -> SpanRef:
        """The step under way, or the part."""
        return self.part_ref(self.part) if self.step is None else self.step_ref(self.step.label)

    def continued(self, now: int) -> "OpenRun":
        """The same run in the next execution."""
        return replace(self, part=self.part + 1, since=now, links=[], events=[])


@dataclass(frozen=True)
class TraceCarryover:
    """What continue-as-new passes on of a thread's trace."""

    run: OpenRun | None = None
    senders: Mapping[str, Sender] = field(default_factory=dict)
    """By the id of the message that no run has read."""

    def dump(self) -> dict[str, Any]:
        newest = dict(list(self.senders.items())[-KEPT_SENDERS:])
        run = None
        if self.run is not None and not self.run.has_ended:
            calls = {id: replace(call, arguments=None) for id, call in self.run.calls.items()}
            run = replace(self.run, calls=calls, links=[], events=[])
        dumped: dict[str, Any] = _CARRYOVER.dump_python(TraceCarryover(run, newest), mode="json")
        return dumped

    @classmethod
    def load(cls, header: Payload) -> "TraceCarryover":
        """What an execution was given; nothing, if it cannot be read, which must not fail the workflow task."""
        try:
            return _CARRYOVER.validate_python(PayloadConverter.default.from_payload(header))
        except (ValueError, KeyError, RuntimeError):  # of another release, or encoded
            return cls()


_CARRYOVER = TypeAdapter(TraceCarryover)


def about(identity: RunIdentity) -> dict[str, str]:
    """The attributes of a run that do not change."""
    known = {
        names.TENANT: identity.tenant,
        names.PARENT_THREAD: identity.parent_thread_id,
        names.PARENT_CALL: identity.parent_tool_call_id,
    }
    return {name: value for name, value in known.items() if value is not None}


def part_span(run: OpenRun, now: int, result: RunResult | None = None) -> SpanRecord:
    """The run's share of this execution, which ends with the run, or, without a result, continues as new."""
    attributes: dict[str, Value] = {
        names.OPERATION: names.INVOKE_AGENT,
        names.AGENT: run.agent,
        names.CONVERSATION: run.thread_id,
        names.RUN_ID: run.run_id,
        names.PART: run.part,
        **run.about,
    }
    error = None
    if result is None:
        attributes[names.CONTINUED] = True
    else:
        attributes |= _result_attributes(result, now - run.began)
        error = reason_code(result.termination) if isinstance(result.termination, Errored) else None
    return SpanRecord(
        name=f"{names.INVOKE_AGENT} {run.agent}",
        ref=run.part_ref(run.part),
        parent=run.parent,
        start=run.since,
        end=now,
        attributes=attributes,
        links=tuple(run.links),
        events=tuple(run.events),
        error=error,
    )


def _result_attributes(result: RunResult, duration: int) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        names.OUTCOME: outcome_of(result.termination),
        names.REASON: reason_code(result.termination),
        names.RUN_STEPS: result.steps,
        names.RUN_DURATION: duration / SECOND,
        **usage_attributes(result.usage),
    }
    if result.usage.cost is not None:
        attributes[names.RUN_COST] = result.usage.cost
    return attributes


def step_span(run: OpenRun, step: OpenStep, now: int) -> SpanRecord:
    attributes: dict[str, Value] = {
        names.AGENT: step.agent,
        names.CONVERSATION: run.thread_id,
        names.RUN_ID: run.run_id,
        names.STEP: step.number,
    }
    if step.discarded:
        attributes[names.DISCARDED] = True
    ref, parent = run.step_ref(step.label), run.part_ref(step.part)
    return SpanRecord(names.SPAN_STEP, ref, parent, step.since, now, attributes)


def call_span(
    run: OpenRun, call_id: str, call: OpenCall, outcome: str, now: int, content: Mapping[str, str]
) -> SpanRecord:
    attributes: dict[str, Value] = {
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL_NAME: call.name,
        names.TOOL_TYPE: names.FUNCTION,
        names.TOOL_CALL_ID: call_id,
        names.CONVERSATION: run.thread_id,
        names.RUN_ID: run.run_id,
        names.TOOL_OUTCOME: outcome,
        **content,
    }
    return SpanRecord(
        name=f"{names.EXECUTE_TOOL} {call.name}",
        ref=run.call_ref(call_id),
        parent=run.step_ref(call.step),
        start=call.since,
        end=now,
        attributes=attributes,
        error=outcome if outcome == names.FAILED else None,
    )


def decision_span(run: OpenRun, ended: EndedSuspension, step: str, now: int) -> SpanRecord:
    """How long a call was suspended, and who decided."""
    call, start = ended.call, ended.call.since * (SECOND // 1000)
    attributes: dict[str, Value] = {
        names.TOOL_NAME: call.call.name,
        names.TOOL_CALL_ID: call.call.id,
        names.CONVERSATION: run.thread_id,
        names.RUN_ID: run.run_id,
        names.DECISION_ACTION: ended.action,
        names.SUSPENSION_DURATION: (now - start) / SECOND,
    }
    decider = ref_of(ended.sender)
    return SpanRecord(
        name=f"{names.SPAN_DECISION} {call.call.name}",
        ref=run.ref("decision", call.call.id, call.resumes, call.since),
        parent=run.step_ref(step),
        start=start,
        end=now,
        attributes=attributes,
        links=(SpanLink(decider, names.LINK_DECIDER),) if decider else (),
    )


def wait_span(run: OpenRun, wait: OpenWait, now: int) -> SpanRecord:
    attributes: dict[str, Value] = {names.CONVERSATION: run.thread_id, names.RUN_ID: run.run_id}
    if wait.field:
        attributes[names.BUDGET_FIELD] = wait.field
    ref = run.ref(wait.name, wait.since)
    return SpanRecord(wait.name, ref, run.part_ref(run.part), wait.since, now, attributes)
