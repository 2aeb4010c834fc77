"""Which facts cannot be given to a thread in which stage, and why: the cells that stay empty in the coverage."""

from collections.abc import Iterable

from wakeful.loop.machine.transitions import STAGES

_WAITED_FOR = {
    "AgentResolved": ("resolving", "handing_off", "cancelling"),
    "InferenceReturned": ("inferring", "cancelling"),
    "ToolReturned": ("calling_tools", "cancelling"),
    "HooksReturned": ("running_hooks", "cancelling"),
}
"""The stages that have such a command in flight: its result ends the stage, or ends a cancel of it."""

_RUNNING = (
    "running_hooks",
    "inferring",
    "calling_tools",
    "handing_off",
    "awaiting_decisions",
    "awaiting_tasks",
    "awaiting_budget",
)


def _impossible(stages: Iterable[str], fact: str, why: str) -> dict[tuple[str, str], str]:
    return {(stage, fact): why for stage in stages}


def _every() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for fact, stages in _WAITED_FOR.items():
        others = [stage for stage in STAGES if stage not in stages]
        found |= _impossible(others, fact, f"a thread leaves {stages[0]} only when such a command has ended")
    cancels = "the loop cancels commands only when it ends a run, and this stage is in the middle of one"
    found |= _impossible(_RUNNING, "WorkCancelled", cancels)
    bug = "only an exception in the loop causes it, and an exception in the loop is a bug"
    return found | _impossible(STAGES, "LoopFailed", bug)


def impossible(facts: Iterable[str]) -> dict[tuple[str, str], str]:
    """Every empty cell with its reason."""
    rests = "`advance` never returns a thread in this stage"
    return _every() | {("between_steps", fact): rests for fact in facts}
