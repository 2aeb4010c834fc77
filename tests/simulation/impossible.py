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
    found |= {("done", "WorkCancelled"): "a run is done when everything that it has cancelled has ended"}
    alarm = (
        "an alarm is taken before all else of its activation, except signals; after these it is set again, and this "
        "stage has none"
    )
    found |= _impossible(("idle", "cancelling", "done"), "TimerFired", alarm)
    reset = (
        "a reset is the first fact of a workflow task, and in the simulation hooks end within theirs; an execution "
        "that starts in hooks takes a reset to its start without a fact"
    )
    found |= {("running_hooks", "HistoryReset"): reset}
    started = "a thread waits for tasks after an answer without calls, and by then every task has its id"
    found |= {("awaiting_tasks", "ChildIdAssigned"): started}
    heartbeat = (
        "hooks run in a local activity, which in the simulation ends within its workflow task; only if hooks outlast a "
        "workflow task can a cancel come between, and the loop's own tests take that edge"
    )
    found |= {("cancelling", "HooksReturned"): heartbeat}
    bug = "only an exception in the loop causes it, and an exception in the loop is a bug"
    return found | _impossible(STAGES, "LoopFailed", bug)


def impossible(facts: Iterable[str]) -> dict[tuple[str, str], str]:
    """Every empty cell with its reason."""
    rests = "`advance` never returns a thread in this stage"
    return _every() | {("between_steps", fact): rests for fact in facts}
