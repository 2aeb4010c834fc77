"""What must stay the same: from execution to execution, from decision to outcome, from transcript to prompt."""

import json
from collections import defaultdict
from collections.abc import Iterable

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import WorkflowExecutionSignaledEventAttributes

from tests.simulation.execution import Execution
from tests.simulation.people import Sent
from tests.simulation.workload import Effect
from wakeful.contract import names
from wakeful.contract.base import replace
from wakeful.contract.errors import CallerError
from wakeful.contract.messages import Message
from wakeful.contract.outcomes import Outcome, OutcomeStatus, remembered_id
from wakeful.contract.requests import parse_submission
from wakeful.contract.runs import OnBusy
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.stages import Inferring
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.continue_as_new import unpack
from wakeful.loop.thread.transcript import Transcript

CANCEL_REQUESTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
SIGNALED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED


def lost_by_snapshot(thread: Thread, execution: Execution) -> str:
    """What the next execution does not get as it was; empty if it gets all, or there is none.

    It cannot get Temporal's cancel: an execution that has one must close itself.
    """
    last = execution.history[-1]
    if last.event_type != CONTINUED:
        return ""
    (payload,) = last.workflow_execution_continued_as_new_event_attributes.input.payloads
    after = _comparable(unpack(json.loads(payload.data)[names.SNAPSHOT]).thread)
    before = _comparable(thread)
    cancel = ["cancel"] if any(event.event_type == CANCEL_REQUESTED for event in execution.history) else []
    return ", ".join([*cancel, *(name for name, value in before.items() if after[name] != value)])


def _comparable(thread: Thread) -> dict[str, object]:
    """A thread without what continue-as-new changes: older messages, sources of waiting ones, event numbers."""
    counters = thread.counters.model_copy(update={"events": 0, "archives": 0})
    stage = replace(thread.stage, lineage="") if isinstance(thread.stage, Inferring) else thread.stage
    bare = replace(thread, transcript=Transcript(), queued=(), steering=(), counters=counters, stage=stage)
    fields: dict[str, object] = {name: getattr(bare, name) for name in bare.__dataclass_fields__}
    return fields | {
        "transcript": thread.transcript.ref,
        "queued": _messages(thread.queued),
        "steering": _messages(thread.steering),
    }


def _messages(waiting: Iterable[Submitted]) -> list[Message]:
    return [submitted.message for submitted in waiting]


class AppliedDecisions:
    """The decisions that a thread has applied: each stays applied as long as the thread remembers it.

    A reset undoes what was applied after it, so that every lineage counts for itself.
    """

    def __init__(self) -> None:
        self._applied: set[tuple[int, str, str]] = set()
        self.undone: str = ""

    def note(self, outcomes: Iterable[Outcome], lineage: int) -> None:
        for outcome in outcomes:
            for call in outcome.calls:
                decision = (lineage, outcome.id, call)
                if outcome.status is OutcomeStatus.APPLIED:
                    self._applied.add(decision)
                elif decision in self._applied:
                    self.undone = self.undone or f"decision {outcome.id!r} was applied, and then {outcome.status.value}"


def rolled_back(thread: Thread) -> list[str]:
    """The messages that were rolled back, and are still in the conversation; empty if there is none."""
    undone = {outcome.id for outcome in thread.outcomes if outcome.status is OutcomeStatus.ROLLED_BACK}
    return [message.id for message in thread.transcript.messages if remembered_id(message.id) in undone]


def several_keys(effects: Iterable[Effect]) -> str:
    """A tool call whose attempts have different idempotency keys; empty if there is none."""
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for effect in effects:
        keys[effect.thread_id, effect.call_id].add(effect.key)
    return next((f"{thread} {call}: {sorted(found)}" for (thread, call), found in keys.items() if len(found) > 1), "")


def read_out_of_order(thread: Thread, sent: Iterable[Sent], executions: Iterable[Execution]) -> list[str]:
    """Messages that waited for their turn and were not read in the order in which they came; empty if all were."""
    mine = (message for message in sent if message.thread_id == thread.identity.thread_id)
    waiting = {message.text for message in mine if message.on_busy == OnBusy.ENQUEUE}
    came = [text for execution in executions for text in _submitted(execution) if text in waiting]
    once = [text for text in came if came.count(text) == 1]
    read = [message.text for message in thread.transcript.messages if message.text in once]
    return [] if read == [text for text in once if text in read] else read


def is_cancelled(execution: Execution) -> bool:
    """Whether the execution was sent a cancel."""
    waiting = [WorkflowExecutionSignaledEventAttributes() for _ in execution.buffered]
    signals = [event.workflow_execution_signaled_event_attributes for event in execution.history]
    for attributes, (kind, fill) in zip(waiting, execution.buffered, strict=True):
        if kind == SIGNALED:
            fill(attributes)
    return any(signal.signal_name == names.SIGNAL_CANCEL for signal in (*signals, *waiting))


def cancelled_children(execution: Execution) -> set[str]:
    """The threads to which an execution has sent a cancel."""
    sent = (event.signal_external_workflow_execution_initiated_event_attributes for event in execution.history)
    return {signal.workflow_execution.workflow_id for signal in sent if signal.signal_name == names.SIGNAL_CANCEL}


def _submitted(execution: Execution) -> list[str]:
    texts = []
    for event in execution.history:
        signaled = event.workflow_execution_signaled_event_attributes
        if event.event_type == SIGNALED and signaled.signal_name == names.SIGNAL_SUBMIT:
            texts += [text for payload in signaled.input.payloads for text in _texts(payload.data)]
    return texts


def _texts(written: bytes) -> list[str]:
    try:
        return [message.as_message("").text for message in parse_submission(json.loads(written)).messages]
    except CallerError:
        return []
