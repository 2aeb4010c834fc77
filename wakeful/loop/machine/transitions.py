"""Both lifecycles as tables. Everything that may follow what is here; code, tests and the docs' diagrams read it."""

from collections.abc import Mapping

from wakeful.contract.errors import IllegalTransition
from wakeful.contract.runs import RunStatus, ToolCallStatus

RUN: Mapping[RunStatus, frozenset[RunStatus]] = {
    RunStatus.CREATED: frozenset({RunStatus.RUNNING, RunStatus.DONE}),
    RunStatus.RUNNING: frozenset({RunStatus.WAITING, RunStatus.DONE}),
    RunStatus.WAITING: frozenset({RunStatus.RUNNING, RunStatus.DONE}),
    RunStatus.DONE: frozenset(),
}

_ENDED = frozenset({ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})

TOOL_CALL: Mapping[ToolCallStatus, frozenset[ToolCallStatus]] = {
    ToolCallStatus.NEW: frozenset(ToolCallStatus) - {ToolCallStatus.NEW},
    ToolCallStatus.RUNNING: _ENDED | {ToolCallStatus.SUSPENDED},
    ToolCallStatus.SUSPENDED: frozenset({ToolCallStatus.RESUMING, ToolCallStatus.CANCELLED}),
    ToolCallStatus.RESUMING: _ENDED | {ToolCallStatus.RUNNING, ToolCallStatus.SUSPENDED},
    ToolCallStatus.SUCCEEDED: frozenset(),
    ToolCallStatus.FAILED: frozenset(),
    ToolCallStatus.CANCELLED: frozenset(),
}


def check_run(before: RunStatus, after: RunStatus) -> None:
    """Raise unless a run may go from `before` to `after`."""
    if before is not after and after not in RUN[before]:
        raise IllegalTransition(f"a run cannot go from {before!r} to {after!r}")


def check_tool_call(before: ToolCallStatus, after: ToolCallStatus) -> None:
    """Raise unless a tool call may go from `before` to `after`."""
    if before is not after and after not in TOOL_CALL[before]:
        raise IllegalTransition(f"a tool call cannot go from {before!r} to {after!r}")
