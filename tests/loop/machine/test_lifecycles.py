"""Every edge of both lifecycles, legal and illegal."""

from itertools import product

import pytest

from tests.loop.driving import call, done, ok
from wakeful.contract.errors import IllegalTransition
from wakeful.contract.inference import ModelResponse
from wakeful.contract.runs import RunStatus, ToolCallStatus
from wakeful.loop.calls.batch import Batch, RunningCall, SettledCall
from wakeful.loop.machine.stages import CallingTools, Resolving
from wakeful.loop.machine.transitions import RUN, TOOL_CALL, check_run, check_tool_call

RUN_EDGES = {
    ("created", "running"),
    ("created", "done"),
    ("running", "waiting"),
    ("running", "done"),
    ("waiting", "running"),
    ("waiting", "done"),
}
ENDS = ("succeeded", "failed", "cancelled")
TOOL_CALL_EDGES = {
    *(("new", after) for after in ("running", "suspended", "resuming", *ENDS)),
    *(("running", after) for after in ("suspended", *ENDS)),
    *(("suspended", after) for after in ("resuming", "cancelled")),
    *(("resuming", after) for after in ("running", "suspended", *ENDS)),
}
BATCH = Batch(
    inference_id="infer-1",
    message_id="r1:2",
    response=ModelResponse(model="model-1"),
    calls=(SettledCall(call("c1"), ToolCallStatus.SUCCEEDED, ok("sunny")),),
)


def test_a_run_has_four_statuses_and_a_call_has_seven() -> None:
    """B-001, B-300"""
    assert [status.value for status in RunStatus] == ["created", "running", "waiting", "done"]
    assert [status.value for status in ToolCallStatus] == ["new", "running", "suspended", "resuming", *ENDS]


def test_the_tables_have_exactly_the_legal_edges() -> None:
    """B-002, B-301"""
    assert {(before, after) for before, follows in RUN.items() for after in follows} == RUN_EDGES
    assert {(before, after) for before, follows in TOOL_CALL.items() for after in follows} == TOOL_CALL_EDGES


@pytest.mark.parametrize(("before", "after"), list(product(RunStatus, repeat=2)))
def test_a_run_moves_along_its_edges_and_no_others(before: RunStatus, after: RunStatus) -> None:
    """B-002: staying is always legal, and what is done stays done."""
    if before is after or (before, after) in RUN_EDGES:
        check_run(before, after)
    else:
        with pytest.raises(IllegalTransition, match=rf"a run cannot go from {before!r} to {after!r}"):
            check_run(before, after)


@pytest.mark.parametrize(("before", "after"), list(product(ToolCallStatus, repeat=2)))
def test_a_tool_call_moves_along_its_edges_and_no_others(before: ToolCallStatus, after: ToolCallStatus) -> None:
    """B-301"""
    if before is after or (before, after) in TOOL_CALL_EDGES:
        check_tool_call(before, after)
    else:
        with pytest.raises(IllegalTransition, match=rf"a tool call cannot go from {before!r} to {after!r}"):
            check_tool_call(before, after)


@pytest.mark.parametrize("stage", [Resolving(), CallingTools(BATCH)], ids=["created", "running"])
def test_what_is_done_is_never_left(stage: Resolving | CallingTools) -> None:
    """B-002, I-02"""
    with pytest.raises(IllegalTransition):
        done().state.entering(stage)


def test_a_settled_call_never_runs_again() -> None:
    """B-301, I-04"""
    with pytest.raises(IllegalTransition):
        BATCH.with_call(RunningCall(call("c1"), id="tool-c1"))
