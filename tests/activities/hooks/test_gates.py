"""Permission rules and gates give one verdict on a call; a gate that fails blocks it."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from wakeful import Agent, Behavior, GateCall, PermissionPolicy, Registry, Rule, ToolResult, Verdict, gate
from wakeful.authoring.gate import Gate
from wakeful.contract.decisions import DecisionAction, ToolCallResume
from wakeful.contract.gates import Block, SetResult, Suspend
from wakeful.contract.runs import RunIdentity
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.results import RESULT_LIMIT
from wakeful_activities.user_code import UserCode

IDENTITY = RunIdentity(thread_id="t", run_id="r", agent_id="a")
RESUMED = ToolCallResume(action=DecisionAction.RESUME)


def call(tool: str = "pay", **changes: Any) -> GateCall:
    fields = {"identity": IDENTITY, "call_id": "c", "tool_name": tool, "arguments": {"n": 1}}
    return GateCall(**{**fields, **changes})


def returning(name: str, verdict: Verdict | None) -> Gate:
    return gate(name=name)(lambda _call: verdict)


async def verdict(
    *gates: Gate, policy: PermissionPolicy | None = None, on: GateCall | None = None, rules: tuple[Rule, ...] = ()
) -> Verdict | None:
    registry = Registry(agents=[Agent(id="a", gates=gates, permissions=policy)])
    with gates_of(registry) as evaluating:
        return await evaluating.verdict(registry.resolve("a"), rules, on or call())


@contextmanager
def gates_of(registry: Registry) -> Iterator[Gates]:
    yield Gates(registry, UserCode(), timeout_seconds=1)


def policy(**rules: Behavior) -> PermissionPolicy:
    return PermissionPolicy(rules=tuple(Rule(tool=tool, behavior=behavior) for tool, behavior in rules.items()))


BLOCK, OTHER_BLOCK = Block(reason="no"), Block(reason="never")
SUSPEND, OTHER_SUSPEND = call().suspend("sure?"), call().suspend("really?")
RESULT, OTHER_RESULT = call().result(1), call().result(2)


@pytest.mark.parametrize(
    ("verdicts", "strongest"),
    [
        ([], None),
        ([None, None], None),
        ([None, RESULT], RESULT),
        ([RESULT, OTHER_RESULT], RESULT),
        ([RESULT, SUSPEND], SUSPEND),
        pytest.param([SUSPEND, OTHER_SUSPEND, RESULT], SUSPEND, id="intercept_same_priority_keeps_first"),
        pytest.param([SUSPEND, BLOCK], BLOCK, id="intercept_block_wins_over_suspend"),
        ([RESULT, BLOCK, OTHER_BLOCK, SUSPEND], BLOCK),
    ],
)
async def test_block_goes_before_suspend_before_a_result_and_then_the_first_counts(
    verdicts: list[Verdict | None], strongest: Verdict | None
) -> None:
    """B-230."""
    assert await verdict(*(returning(f"g{n}", verdict) for n, verdict in enumerate(verdicts))) == strongest


async def test_a_denied_call_is_blocked_and_no_gate_is_evaluated() -> None:
    """B-801."""
    evaluated: list[str] = []
    watching = gate(name="watching")(lambda call: evaluated.append(call.call_id))
    denied = Block(reason="Tool 'pay' denied by permission rules", rule="pay")
    assert await verdict(watching, policy=policy(pay=Behavior.DENY)) == denied
    assert evaluated == []


async def test_a_call_that_needs_permission_is_suspended_until_a_decision() -> None:
    """B-801."""
    suspended = await verdict(policy=policy(pay=Behavior.ASK))
    assert isinstance(suspended, Suspend)
    assert suspended.ticket.model_dump(mode="json") == {
        "suspension": {
            "id": "perm_c",
            "action": "tool:PermissionConfirm",
            "message": "Permission required for tool 'pay'",
            "parameters": {"n": 1},
        },
        "pending": {"id": "c", "name": "pay", "arguments": {"n": 1}},
        "resume_mode": "replay_tool_call",
        "remember": "pay",
    }
    assert await verdict(policy=policy(pay=Behavior.ASK), on=call(resume=RESUMED)) is None
    cancelled = call(resume=ToolCallResume(action=DecisionAction.CANCEL))
    assert await verdict(policy=policy(pay=Behavior.ASK), on=cancelled) == suspended


async def test_the_question_of_a_rule_has_the_arguments_and_a_deadline() -> None:
    asking = Rule(
        tool="pay(n >= 1)", behavior="ask", message="Pay {n} EUR?", expires_after=60, on_expiry="deny", escalate_after=5
    )
    asked = await verdict(policy=PermissionPolicy(rules=(Rule(tool="pay", behavior="ask"), asking)))
    assert isinstance(asked, Suspend)
    assert asked.ticket.suspension.model_dump(mode="json") == {
        "id": "perm_c",
        "action": "tool:PermissionConfirm",
        "message": "Pay 1 EUR?",
        "parameters": {"n": 1},
        "expiry": {"after_seconds": 60.0, "then": "deny"},
        "escalate_after_seconds": 5.0,
    }


async def test_a_denial_has_the_message_of_its_rule_or_names_the_default() -> None:
    denying = Rule(tool="pay", behavior="deny", message="{n} EUR: ask the finance team.")
    assert await verdict(policy=PermissionPolicy(rules=(denying,))) == Block(
        reason="1 EUR: ask the finance team.", rule="pay"
    )
    assert await verdict(policy=PermissionPolicy(default_behavior="deny")) == Block(
        reason="Tool 'pay' denied by permission rules", rule="default_behavior: deny"
    )


async def test_a_denied_call_stays_denied_whatever_the_decision() -> None:
    """B-337."""
    denied = Block(reason="Tool 'pay' denied by permission rules", rule="pay")
    assert await verdict(policy=policy(pay=Behavior.DENY), on=call(resume=RESUMED)) == denied
    edited = call(arguments={"n": 1000}, resume=RESUMED)
    big = PermissionPolicy(rules=(Rule(tool="pay(n >= 1000)", behavior=Behavior.DENY),))
    assert await verdict(policy=big, on=edited) == denied.model_copy(update={"rule": "pay(n >= 1000)"})
    assert await verdict(policy=big, on=call(resume=RESUMED)) is None


async def test_rules_of_the_thread_and_the_run_override_the_agents() -> None:
    """B-803."""
    allowed = (Rule(tool="pay", behavior=Behavior.ALLOW),)
    assert await verdict(policy=policy(pay=Behavior.ASK), rules=allowed) is None
    denied = await verdict(rules=(Rule(tool="p*", behavior=Behavior.DENY),))
    assert denied == Block(reason="Tool 'pay' denied by permission rules", rule="p*")


async def test_a_gate_may_block_what_rules_allow_or_ask_about() -> None:
    for behavior in (Behavior.ALLOW, Behavior.ASK):
        assert await verdict(returning("g", BLOCK), policy=policy(pay=behavior)) == BLOCK
    suspended = await verdict(returning("g", OTHER_SUSPEND), policy=policy(pay=Behavior.ASK))
    assert isinstance(suspended, Suspend)
    assert suspended.ticket.suspension.id == "perm_c"


async def test_a_remembered_permission_matches_a_tool_with_an_odd_name_literally() -> None:
    suspended = await verdict(policy=policy(), on=call("a*"))
    assert isinstance(suspended, Suspend)
    remembered = (Rule(tool=suspended.ticket.remember or "", behavior=Behavior.ALLOW),)
    assert await verdict(policy=policy(), rules=remembered, on=call("a*")) is None
    assert await verdict(policy=policy(), rules=remembered, on=call("ab")) is not None


async def test_gates_are_sync_in_a_thread_or_async() -> None:
    threads: list[str] = []

    @gate
    def in_a_thread(call: GateCall) -> Verdict | None:
        threads.append(threading.current_thread().name)
        return None

    @gate
    async def in_the_loop(call: GateCall) -> Verdict | None:
        await asyncio.sleep(0)
        threads.append(threading.current_thread().name)
        return call.block(f"no {call.tool_name}")

    class Called:
        async def __call__(self, call: GateCall) -> Verdict | None:
            return call.block("second")

    assert await verdict(in_a_thread, in_the_loop, gate(name="called")(Called())) == Block(reason="no pay")
    assert await verdict(gate(name="called")(Called())) == Block(reason="second")
    assert threads[0].startswith("wakeful-gate")
    assert threads[1] == threading.current_thread().name


async def test_a_gate_that_changes_the_arguments_changes_nothing() -> None:
    seen: list[object] = []

    @gate
    def meddling(call: GateCall) -> Verdict | None:
        assert isinstance(call.arguments, dict)
        call.arguments["n"] = 1_000_000
        return None

    @gate
    def watching(call: GateCall) -> Verdict | None:
        seen.append(call.arguments)
        return None

    made = call()
    assert await verdict(meddling, watching, on=made) is None
    assert (seen, made.arguments) == ([{"n": 1}], {"n": 1})


@gate
def raising(call: GateCall) -> Verdict | None:
    raise ValueError("boom")


@gate
async def silent(call: GateCall) -> Verdict | None:
    raise KeyError


@gate
async def timing_out(call: GateCall) -> Verdict | None:
    raise TimeoutError("the policy server does not answer")


@gate
async def hanging(call: GateCall) -> Verdict | None:
    await asyncio.Event().wait()
    return None


@gate
def hanging_in_a_thread(call: GateCall) -> Verdict | None:
    threading.Event().wait(1.5)
    return None


@gate
def exiting(call: GateCall) -> Verdict | None:
    sys.exit(3)


@gate
async def cancelling_itself(call: GateCall) -> Verdict | None:
    raise asyncio.CancelledError


@gate
def chatty(call: GateCall) -> Verdict | None:
    return "yes"  # type: ignore[return-value]


@gate
def nonsensical(call: GateCall) -> Verdict | None:
    return call.suspend("sure?", on_expiry="deny")


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        (raising, "gate 'raising' failed: ValueError: boom"),
        (silent, "gate 'silent' failed: KeyError"),
        (timing_out, "gate 'timing_out' failed: TimeoutError: the policy server does not answer"),
        (hanging, "gate 'hanging' failed: it took longer than 1 s"),
        (hanging_in_a_thread, "gate 'hanging_in_a_thread' failed: it took longer than 1 s"),
        (exiting, "gate 'exiting' failed: RuntimeError: SystemExit: it called sys.exit(3)"),
        (cancelling_itself, "gate 'cancelling_itself' failed: RuntimeError: CancelledError: it cancelled itself"),
        (chatty, "gate 'chatty' failed: it returned a str, which is no verdict"),
        (nonsensical, "gate 'nonsensical' failed: ValueError: on_expiry='deny' needs expires_after, in seconds"),
    ],
)
async def test_a_gate_that_fails_blocks_the_call(failing: Gate, reason: str) -> None:
    assert await verdict(returning("fine", None), failing, returning("too", RESULT)) == Block(reason=reason)


async def test_a_gate_that_is_not_registered_blocks_the_call() -> None:
    agent = Registry(agents=[Agent(id="a", gates=[raising])]).resolve("a")
    with gates_of(Registry(agents=[Agent(id="a")])) as elsewhere:
        blocked = await elsewhere.verdict(agent, (), call())
    assert blocked == Block(
        reason="gate 'raising' failed: it is not in this worker's registry; is the registry up to date?"
    )


async def test_malformed_rules_block_the_call() -> None:
    blocked = await verdict(rules=(Rule(tool="pay(", behavior=Behavior.ALLOW),))
    assert isinstance(blocked, Block)
    assert blocked.reason.startswith(
        "Tool 'pay' denied: its permission rules could not be evaluated: 'pay(', character 5"
    )


async def test_a_result_that_is_too_long_is_cut() -> None:
    cut = await verdict(returning("g", call().result("x" * (RESULT_LIMIT + 1))))
    assert isinstance(cut, SetResult)
    assert "[cut: the result has" in cut.result.text
    chinese = await verdict(returning("g", call().result("漢" * RESULT_LIMIT)))
    assert isinstance(chinese, SetResult)
    assert RESULT_LIMIT - 6 < len(chinese.result.text.partition("\n")[0].encode()) <= RESULT_LIMIT


async def test_verdicts_come_by_call_id_and_allowed_calls_have_none() -> None:
    registry = Registry(agents=[Agent(id="a", permissions=policy(look=Behavior.ALLOW, rm=Behavior.DENY))])
    calls = [call("look", call_id="1"), call("rm", call_id="2"), call("mail", call_id="3")]
    with gates_of(registry) as evaluating:
        verdicts = await evaluating.verdicts(registry.resolve("a"), (), calls)
    assert {id: verdict.verdict for id, verdict in verdicts.items()} == {"2": "block", "3": "suspend"}


def test_a_pending_result_is_a_result_like_any_other() -> None:
    """B-310."""
    assert call().result(ToolResult.suspended("pay")).result.status == "pending"
