"""What continue-as-new passes to the next execution: the whole thread, except messages and events that are archived.

All messages and events that are not archived go along, compressed; of the archived messages, the newest that fit a
limit, because the next request to the model needs them. Their position in the chain of digests lets a worker prove that
what it reads back is complete.
"""

import base64
import zlib
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from pydantic import TypeAdapter
from pydantic_core import to_json

from wakeful.contract import ids
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.base import replace
from wakeful.contract.errors import NewerRelease
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message
from wakeful.contract.outcomes import Outcome
from wakeful.contract.permissions import Behavior
from wakeful.contract.runs import RunStatus
from wakeful.contract.segments import SegmentRef, archived_messages
from wakeful.loop.calls.batch import RunningCall
from wakeful.loop.calls.tool_calls import call_command
from wakeful.loop.machine.commands import Command
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.machine.stages import (
    AwaitingBudget,
    AwaitingDecisions,
    AwaitingTasks,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    HandingOff,
    Idle,
    Inferring,
    Resolving,
    RunningHooks,
)
from wakeful.loop.machine.state import BeforeRun, Thread
from wakeful.loop.step.hooks import hooks_command
from wakeful.loop.step.steps import handoff_command, infer_command
from wakeful.loop.subagents.mail import resend_command, send_command
from wakeful.loop.thread.submissions import resolve_command

FORMAT = 5
"""The format of snapshots. Raise it when a field of anything in a snapshot is added, changed or removed: an older
release must not read a snapshot that has more than it knows, because it would drop that. A test compares the fields."""

TAIL_BYTES = 256_000
"""How much of the newest conversation goes along, before compression."""


@dataclass(frozen=True)
class ThreadSnapshot:
    """A thread between two executions of its workflow; no command is in flight."""

    thread: Thread
    search_attributes: tuple[str, ...] | None
    """Those of our search attributes that the namespace has; None before a worker has said."""
    status: RunStatus | None
    """The status that the search attributes show."""
    budget: HistoryBudget
    segments: tuple[SegmentRef, ...] = ()
    """Where the older part of the thread is archived."""
    events: tuple[EventRecord, ...] = ()
    """The events that are not archived."""


_SNAPSHOT = TypeAdapter(ThreadSnapshot)
_MESSAGES = TypeAdapter(tuple[Message, ...])
_OUTCOMES = TypeAdapter(tuple[Outcome, ...])
_EVENTS = TypeAdapter(tuple[EventRecord, ...])
_BEFORE = TypeAdapter(BeforeRun | None)

R = TypeVar("R")


def pack(snapshot: ThreadSnapshot, *, tail_bytes: int = TAIL_BYTES) -> dict[str, Any]:
    """The JSON that the next execution starts with."""
    thread = _for_next_execution(snapshot.thread, archived_messages(snapshot.segments), tail_bytes)
    run = thread.run
    bare = replace(
        thread,
        transcript=replace(thread.transcript, messages=()),
        outcomes=(),
        run=replace(run, before=None) if run else None,
    )
    packed: dict[str, Any] = _SNAPSHOT.dump_python(replace(snapshot, thread=bare, events=()), mode="json")
    packed["messages"] = _compressed(_MESSAGES, thread.transcript.messages)
    packed["outcomes"] = _compressed(_OUTCOMES, thread.outcomes)
    packed["events"] = _compressed(_EVENTS, snapshot.events)
    # Most of it is said twice: a run changes little of what was before it.
    packed["before"] = _compressed(_BEFORE, run.before if run else None)
    packed["format"] = FORMAT
    return packed


def size_of(packed: dict[str, Any]) -> int:
    """The bytes it takes in history; Temporal's converter encodes it the same way."""
    return len(to_json(packed))


def unpack(packed: dict[str, Any]) -> ThreadSnapshot:
    """The snapshot, of this format or any earlier one.

    Raises:
        NewerRelease: it has a later format, or its run is pinned to rules that this release does not have.
    """
    if (found := packed["format"]) > FORMAT:
        raise NewerRelease("format", found, FORMAT)
    snapshot = _SNAPSHOT.validate_python(_in_this_format(packed) | {"events": ()})
    run = snapshot.thread.run
    if run is not None and run.revision > REVISION:
        raise NewerRelease("revision", run.revision, REVISION)
    transcript = replace(snapshot.thread.transcript, messages=_expanded(_MESSAGES, packed["messages"]))
    outcomes = _expanded(_OUTCOMES, packed["outcomes"])
    if run is not None:
        run = replace(run, before=_expanded(_BEFORE, packed["before"]))
    thread = replace(snapshot.thread, transcript=transcript, outcomes=outcomes, run=run)
    return replace(snapshot, thread=thread, events=_expanded(_EVENTS, packed["events"]))


def _in_this_format(packed: dict[str, Any]) -> dict[str, Any]:
    """The snapshot with what the first four formats lack.

    A run's settings as one value; that the users are not known; and of a sub-agent, what its ancestors deny or ask
    about, of which the rules of its first run are all that says it.
    """
    thread = {"users": {"more": True}} | packed["thread"]
    run = thread["run"]
    if run is not None and "settings" not in run:
        settings = {"overrides": run["overrides"], "live": run.get("is_live", False)}
        thread["run"] = run | {"settings": settings}
    if "authority" not in thread and thread["identity"].get("path") and run is not None and run["number"] == 1:
        thread["authority"] = [rule for rule in run["permissions"] if rule["behavior"] != Behavior.ALLOW]
    return packed | {"thread": thread}


def _compressed(kind: TypeAdapter[R], value: R) -> str:
    return base64.b64encode(zlib.compress(kind.dump_json(value))).decode()


def _expanded(kind: TypeAdapter[R], text: str) -> R:
    return kind.validate_json(zlib.decompress(base64.b64decode(text)))


def pending_commands(thread: Thread) -> tuple[Command, ...]:
    """The commands that a thread from a snapshot waits for: none has been started, except for its children."""
    return (*_stage_commands(thread), *resend_command(thread))


def _stage_commands(thread: Thread) -> tuple[Command, ...]:
    match thread.stage:
        case Resolving(id=id):
            return (resolve_command(thread, id),)
        case Inferring() as stage:
            return (infer_command(thread, stage),)
        case HandingOff() as stage:
            return (handoff_command(thread, stage),)
        case RunningHooks() as stage:
            return (hooks_command(thread, stage),)
        case CallingTools(batch=batch):
            return tuple(_call_again(thread, call) for call in batch.running if call.by == "activity" or call.message)
        case AwaitingDecisions() | AwaitingTasks() | AwaitingBudget() | BetweenSteps() | Cancelling() | Idle() | Done():
            return ()
        case _:
            assert_never(thread.stage)


def _call_again(thread: Thread, call: RunningCall) -> Command:
    return call_command(thread, call) if call.message is None else send_command(call.id, call.message)


def _for_next_execution(thread: Thread, archived: int, tail_bytes: int) -> Thread:
    """The thread without older messages that are archived; queued ones refer to the snapshot, not to this history."""
    new_entries = 0
    if isinstance(thread.stage, Inferring):
        new_entries = thread.stage.new_entries
        thread = thread.entering(replace(thread.stage, lineage=""))  # its inference starts anew, in the newest lineage
    at_least = max(new_entries, thread.transcript.length - archived)
    return replace(
        thread,
        transcript=thread.transcript.tail(tail_bytes, at_least=at_least),
        queued=tuple(map(_from_snapshot, thread.queued)),
        steering=tuple(map(_from_snapshot, thread.steering)),
    )


def _from_snapshot(submitted: Submitted) -> Submitted:
    return submitted.model_copy(update={"source": ids.source(ids.FromSnapshot(submitted.message.id))})
