"""Every stage and every edge of both lifecycles: legal ones are allowed, all others raise."""

import ast
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.loop.children import PARENT, awaiting_tasks, child_settled, spawn_call
from tests.loop.driving import Driver, asks, call, ok
from tests.loop.generating import World
from tests.loop.subagents.test_runs_on_a_budget import short_of_turns, with_budget
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.errors import IllegalTransition
from wakeful.contract.inference import ModelResponse
from wakeful.contract.runs import RunStatus, ToolCallStatus
from wakeful.loop.calls.batch import Batch, FinishedCall, RunningCall
from wakeful.loop.machine import stages, state
from wakeful.loop.machine.facts import LoopFailed
from wakeful.loop.machine.transitions import (
    STAGE_EDGES,
    STAGES,
    TOOL_CALL_EDGES,
    check_stage,
    check_tool_call,
)

RUN_STATUS_EDGES = {
    ("created", "running"),
    ("created", "waiting"),
    ("created", "done"),
    ("running", "waiting"),
    ("running", "done"),
    ("waiting", "running"),
    ("waiting", "done"),
}
ENDS = ("succeeded", "failed", "cancelled")
LEGAL_TOOL_CALL_EDGES = {
    *(("new", after) for after in ("running", "suspended", "resuming", *ENDS)),
    *(("running", after) for after in ("suspended", *ENDS)),
    *(("suspended", after) for after in ("resuming", "cancelled")),
    *(("resuming", after) for after in ("running", "suspended", *ENDS)),
}
BATCH = Batch(
    inference_id="infer-1",
    message_id="r1:2",
    response=ModelResponse(model="model-1"),
    calls=(FinishedCall(call("c1"), ToolCallStatus.SUCCEEDED, ok("sunny")),),
)


def test_a_run_has_four_statuses_and_a_call_has_seven() -> None:
    """B-001, B-300"""
    assert [status.value for status in RunStatus] == ["created", "running", "waiting", "done"]
    assert [status.value for status in ToolCallStatus] == ["new", "running", "suspended", "resuming", *ENDS]


def test_the_table_has_every_stage() -> None:
    kinds = {stage.__dataclass_fields__["kind"].default for stage in stages.Stage.__origin__.__args__}  # type: ignore[attr-defined]
    assert kinds == set(STAGES) == set(STAGE_EDGES)


def test_within_a_run_the_edges_are_those_of_its_four_statuses() -> None:
    """B-002: the only way out of `done` is the next run."""
    edges = {(STAGES[before].value, STAGES[after].value) for before, ends in STAGE_EDGES.items() for after in ends}
    assert {(before, after) for before, after in edges if before != after} - {("done", "created")} <= RUN_STATUS_EDGES
    assert {after for before in ("idle", "done") for after in STAGE_EDGES[before]} == {"idle", "resolving", "done"}


@pytest.mark.parametrize(("before", "after"), list(product(STAGES, repeat=2)))
def test_a_thread_moves_along_its_edges_and_no_others(before: str, after: str) -> None:
    """I-02: a stage may be updated in place."""
    if before == after or after in STAGE_EDGES[before]:
        check_stage(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"a thread cannot go from {before!r} to {after!r}"):
            check_stage(before, after)


@pytest.mark.no_cover  # as in test_properties
def test_every_edge_of_the_table_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random histories take all edges but a few, and scenarios take those: an edge that none takes is not needed."""
    taken: set[tuple[str, str]] = set()

    def check(before: str, after: str) -> None:
        check_stage(before, after)
        taken.add((before, after))

    monkeypatch.setattr(state, "check_stage", check)
    for scenario in (
        cancel_while_handing_off,
        cancel_while_waiting_for_a_grant,
        cancel_while_tasks_hold_the_budget,
        cancel_while_waiting_for_tasks,
        fail_while_waiting,
    ):
        scenario()
    edges = {(before, after) for before, follows in STAGE_EDGES.items() for after in follows}
    for seed in range(400):
        if edges <= taken:
            break
        world = World(Random(seed))
        world.make_moves()
        world.finish_all_work()
    assert edges - taken == set()


def cancel_while_handing_off() -> None:
    driver = Driver(PARENT)
    driver.model(asks(call("c1", "handoff_to_billing")))
    driver.cancel()


def cancel_while_waiting_for_a_grant() -> None:
    short_of_turns().cancel()


def cancel_while_tasks_hold_the_budget() -> None:
    for spent in (Spent(turns=1), Spent(turns=9)):
        driver = with_budget(Budget(turns=3))
        driver.model(asks(spawn_call("c1"), spawn_call("c2")))
        driver.feed(child_settled("bg_0", spent=spent))
        driver.cancel()


def cancel_while_waiting_for_tasks() -> None:
    awaiting_tasks().cancel()


def fail_while_waiting() -> None:
    awaiting_tasks().feed(LoopFailed("a bug"))
    handing_off = Driver(PARENT)
    handing_off.model(asks(call("c1", "handoff_to_billing")))
    handing_off.feed(LoopFailed("a bug"))


def test_every_change_of_stage_is_checked_against_the_table() -> None:
    """`replace(…, stage=…)` would bypass the check; only `Thread.entering` uses it."""
    loop = Path(stages.__file__).parents[1]
    bypasses = [
        f"{path.relative_to(loop)}:{node.lineno}"
        for path in sorted(loop.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and any(keyword.arg == "stage" for keyword in node.keywords)
    ]
    assert [bypass.partition(":")[0] for bypass in bypasses] == ["machine/state.py", "thread/opening.py"]


def test_the_table_of_tool_calls_has_exactly_the_legal_edges() -> None:
    """B-301"""
    edges = {(before.value, after.value) for before, follows in TOOL_CALL_EDGES.items() for after in follows}
    assert edges == LEGAL_TOOL_CALL_EDGES


@pytest.mark.parametrize(("before", "after"), list(product(ToolCallStatus, repeat=2)))
def test_a_tool_call_moves_along_its_edges_and_no_others(before: ToolCallStatus, after: ToolCallStatus) -> None:
    """B-301"""
    if before is after or (before.value, after.value) in LEGAL_TOOL_CALL_EDGES:
        check_tool_call(before, after)
    else:
        message = f"a tool call cannot go from {before.value!r} to {after.value!r}"
        with pytest.raises(IllegalTransition, match=message):
            check_tool_call(before, after)


def test_a_finished_call_never_runs_again() -> None:
    """B-301, I-04"""
    with pytest.raises(IllegalTransition):
        BATCH.with_call(RunningCall(call("c1"), id="tool-c1"))
