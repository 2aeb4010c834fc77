"""`@gate`: a function with a name, and the call that it checks."""

import math
from dataclasses import dataclass
from typing import Any

import pytest

from wakeful import ConfigurationError, GateCall, ToolResult, Verdict, gate
from wakeful.contract.decisions import DecisionAction, ToolCallResume
from wakeful.contract.gates import Block, SetResult
from wakeful.contract.runs import Adapter, RunIdentity, RunMode
from wakeful.contract.tools import ToolDescriptor, ToolKind


def call(**changes: Any) -> GateCall:
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    fields = {"identity": identity, "call_id": "c", "tool_name": "pay", "arguments": {"n": 1}}
    return GateCall(**{**fields, **changes})


def test_a_gate_has_its_functions_name_or_another() -> None:
    @gate
    def office_hours(call: GateCall) -> Verdict | None:
        return call.block("closed")

    @gate(name="four_eyes")
    async def _ask(call: GateCall) -> Verdict | None:
        return None if call.approved else call.suspend("May I?")

    assert (office_hours.name, office_hours.is_async) == ("office_hours", False)
    assert (_ask.name, _ask.is_async) == ("four_eyes", True)
    assert office_hours(call()) == Block(reason="closed")


def test_a_gate_must_take_the_call_and_have_a_name() -> None:
    with pytest.raises(ConfigurationError, match="gate 'nothing' must take one argument, the GateCall: too many"):

        @gate  # type: ignore[arg-type]
        def nothing() -> None: ...

    with pytest.raises(ConfigurationError, match="has no name: give it one"):
        gate(lambda _call: None)


def test_a_gate_returns_a_verdict() -> None:
    assert call().block("no") == Block(reason="no")
    assert call().result({"cached": True}) == SetResult(result=ToolResult.success("pay", {"cached": True}))
    mine = ToolResult.error("pay", "sold out")
    assert call().result(mine) == SetResult(result=mine)


@dataclass
class Price:
    euros: int


def test_a_result_may_be_anything_that_serializes_to_json() -> None:
    assert call().result([Price(3)]).result.data == [{"euros": 3}]


def test_a_gate_suspends_like_a_tool() -> None:
    """B-310, B-311."""
    verdict = call().suspend("Pay?", action="approve", parameters={"sum": 1}, expires_after=60, on_expiry="deny")
    assert verdict.ticket.model_dump(mode="json") == {
        "suspension": {
            "id": "suspend_c",
            "action": "approve",
            "message": "Pay?",
            "parameters": {"sum": 1},
            "expiry": {"after_seconds": 60.0, "then": "deny"},
        },
        "pending": {"id": "c", "name": "pay", "arguments": {"n": 1}},
        "resume_mode": "replay_tool_call",
    }


def test_only_a_decision_to_resume_is_an_approval() -> None:
    assert not call().approved
    assert call(resume=ToolCallResume(action=DecisionAction.RESUME)).approved
    assert not call(resume=ToolCallResume(action=DecisionAction.CANCEL)).approved


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan])
def test_a_deadline_must_be_finite(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"expires_after is .*; it must be a finite number of seconds above 0"):
        call().suspend("Pay?", expires_after=seconds)
    with pytest.raises(ValueError, match=r"escalate_after is .*; it must be a finite number of seconds above 0"):
        call().suspend("Pay?", escalate_after=seconds)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("write_file", "edit"),
        ("searchAndReplace", "edit"),
        ("grep_files", "search"),
        ("get_weather", "read"),
        ("run_command", "execute"),
        ("thread_target", "other"),
    ],
)
def test_a_gate_sees_the_kind_of_tool_that_is_declared_or_that_its_name_suggests_b236(name: str, kind: str) -> None:
    seen = call(tool_name=name)
    assert seen.tool_kind == kind
    declared = ToolDescriptor(id=name, name=name, declared_kind=ToolKind.EXECUTE)
    assert call(tool_name=name, tool=declared).tool_kind is ToolKind.EXECUTE


def test_a_gate_sees_the_mode_of_the_run_the_kind_of_tool_and_that_a_call_is_resumed_b235() -> None:
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a", run_mode=RunMode.SCHEDULED, adapter=Adapter.A2A)
    seen = call(identity=identity, tool_name="get_weather")
    assert (seen.run_mode, seen.identity.adapter, seen.tool_kind) == (RunMode.SCHEDULED, Adapter.A2A, ToolKind.READ)
    resumed = call(identity=identity, resume=ToolCallResume(action=DecisionAction.RESUME))
    assert resumed.run_mode is RunMode.RESUME
