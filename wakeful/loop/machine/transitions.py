"""Every stage of a thread and of a tool call, and every edge between them.

The code enters a stage only through `check_stage`, the tests take every edge, and the diagram in
`docs/architecture.md` is drawn from these tables. A transition that is not here is a bug, and raises.
"""

from collections.abc import Mapping

from wakeful.contract.errors import IllegalTransition
from wakeful.contract.runs import RunStatus, ToolCallStatus

STAGES: Mapping[str, RunStatus] = {
    "idle": RunStatus.DONE,
    "resolving": RunStatus.CREATED,
    "running_hooks": RunStatus.RUNNING,
    "between_steps": RunStatus.RUNNING,
    "inferring": RunStatus.RUNNING,
    "calling_tools": RunStatus.RUNNING,
    "handing_off": RunStatus.RUNNING,
    "awaiting_decisions": RunStatus.WAITING,
    "awaiting_tasks": RunStatus.WAITING,
    "awaiting_budget": RunStatus.WAITING,
    "cancelling": RunStatus.RUNNING,
    "done": RunStatus.DONE,
}
"""The stages of a thread, with the status that people see."""

STAGE_EDGES: Mapping[str, frozenset[str]] = {
    "idle": frozenset({"resolving", "done"}),
    "resolving": frozenset({"between_steps", "cancelling", "done"}),
    "running_hooks": frozenset({"between_steps", "cancelling", "done"}),
    "between_steps": frozenset(
        {
            "inferring",
            "calling_tools",
            "running_hooks",
            "handing_off",
            "awaiting_tasks",
            "awaiting_budget",
            "cancelling",
            "done",
        }
    ),
    "inferring": frozenset({"between_steps", "cancelling", "done"}),
    "calling_tools": frozenset({"awaiting_decisions", "between_steps", "cancelling"}),
    "handing_off": frozenset({"between_steps", "cancelling", "done"}),
    "awaiting_decisions": frozenset({"calling_tools", "between_steps", "cancelling"}),
    "awaiting_tasks": frozenset({"between_steps", "cancelling", "done"}),
    "awaiting_budget": frozenset({"between_steps", "cancelling", "done"}),
    "cancelling": frozenset({"between_steps", "done"}),
    "done": frozenset({"idle", "resolving"}),
}
"""Where each stage may lead. A thread leaves `done` only for the next message or the next run."""

_ENDED = frozenset({ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})

TOOL_CALL_EDGES: Mapping[ToolCallStatus, frozenset[ToolCallStatus]] = {
    ToolCallStatus.NEW: frozenset(ToolCallStatus) - {ToolCallStatus.NEW},
    ToolCallStatus.RUNNING: _ENDED | {ToolCallStatus.SUSPENDED},
    ToolCallStatus.SUSPENDED: frozenset({ToolCallStatus.RESUMING, ToolCallStatus.CANCELLED}),
    ToolCallStatus.RESUMING: _ENDED | {ToolCallStatus.RUNNING, ToolCallStatus.SUSPENDED},
    ToolCallStatus.SUCCEEDED: frozenset(),
    ToolCallStatus.FAILED: frozenset(),
    ToolCallStatus.CANCELLED: frozenset(),
}


def check_stage(before: str, after: str) -> None:
    """Raise unless a thread may go from one stage to the other; a stage may always be updated in place."""
    if before != after and after not in STAGE_EDGES[before]:
        raise IllegalTransition(f"a thread cannot go from {before!r} to {after!r}")


def check_tool_call(before: ToolCallStatus, after: ToolCallStatus) -> None:
    """Raise unless a tool call may go from one status to the other."""
    if before is not after and after not in TOOL_CALL_EDGES[before]:
        raise IllegalTransition(f"a tool call cannot go from {before.value!r} to {after.value!r}")
