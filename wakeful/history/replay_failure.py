"""Explain why a history does not replay: the event at fault, what it records, and what the installed code does instead.

Pure: `replay` runs the SDK's replayer, and here its failure is parsed, which is the debug form of a Rust value:
`Failure { message: "…", …, r#type: "ValueError", … }`.
"""

import re

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from wakeful.history.decoder import moment_of
from wakeful.history.moments import (
    ActivityCompleted,
    ActivityScheduled,
    AttributesUpserted,
    CancelSent,
    ChildInitiated,
    MarkerRecorded,
    SignalSent,
    TaskCompleted,
    TimerStarted,
)

_MESSAGE = re.compile(r'message: "((?:[^"\\]|\\.)*)"')
_EXCEPTION = re.compile(r'r#type: "([^"]+)"')
_LINE = re.compile(r'File \\"([^"\\]+)\\", line (\d+)')
_EVENT = re.compile(r"HistoryEvent\(id: (\d+)")
_MISMATCH = re.compile(r"(?P<what>[A-Za-z ]+?) of [a-z ]+ '.*' does not match .* '(?P<now>.*)'$")
_MACHINE = re.compile(r"(?P<machine>[A-Za-z ]+?) ?[Mm]achine does not handle")

_COMMANDS = {
    "Activity": "schedules an activity",
    "Timer": "starts a timer",
    "Child workflow": "starts a child workflow",
    "Signal external WF": "signals another workflow",
    "Cancel external WF": "cancels another workflow",
    "UpsertWorkflowSearchAttributes": "sets search attributes",
    "ModifyWorkflowProperties": "changes the memo",
    "Continue as new workflow": "continues as new",
    "Complete workflow": "ends the run",
    "Cancel workflow": "ends the run as cancelled",
    "Fail workflow": "fails the run",
}
"""What the code does, by the SDK's name of the state machine that got an event it does not handle."""


def failure_message(failure: str) -> str:
    """The SDK's message, unescaped."""
    found = _MESSAGE.search(failure)
    if found is None:
        return failure
    return re.sub(r"\\(.)", lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), found[1])


def named_event(message: str) -> int | None:
    """The id of the event that the message names; not every message names one."""
    found = _EVENT.search(message)
    return int(found[1]) if found else None


def code_behaviour(message: str, failure: str) -> str:
    """What the installed code does where history records something else."""
    if exception := _EXCEPTION.search(failure):
        lines = _LINE.findall(failure)
        return f"raises {exception[1]}: {message}" + (f" ({lines[-1][0]}, line {lines[-1][1]})" if lines else "")
    if machine := _MACHINE.search(message.rpartition("error: ")[2]):
        return _COMMANDS.get(machine["machine"], machine["machine"])
    if mismatch := _MISMATCH.search(message.rpartition("error: ")[2]):
        return f"{mismatch['what'].lower()} {mismatch['now']!r}"
    return "nothing of the kind" if _EVENT.search(message) else message


def event_type_name(event: HistoryEvent) -> str:
    """An event's type as Temporal UI spells it."""
    return EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").title().replace("_", "")


def recorded_command(event: HistoryEvent) -> str:
    """The command of the workflow that an event records, in words; for other events, their type."""
    match moment_of(event):
        case ActivityScheduled(activity_id=id, activity_type=type):
            return f"activity {type!r}, id {id!r}"
        case ActivityCompleted(scheduled=None, activity_id=id, activity_type=type):
            return f"local activity {type!r}, id {id!r}"
        case TimerStarted(timer_id=id, duration=duration):
            return f"timer {id!r} of {duration}"
        case ChildInitiated(workflow_type=type, thread_id=id):
            return f"child workflow {type!r}, id {id!r}"
        case SignalSent(signal=signal, thread_id=id):
            return f"signal {signal!r} to {id!r}"
        case CancelSent(thread_id=id):
            return f"a cancel of {id!r}"
        case MarkerRecorded(name=name):
            return f"marker {name!r}"
        case AttributesUpserted(names=names):
            return f"search attributes {', '.join(names)}"
        case TaskCompleted():
            return "a completed workflow task"
        case _:
            return event_type_name(event)
