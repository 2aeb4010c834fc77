"""Rules and gates are asked about a call, and one verdict comes of it; what fails never lets a call through."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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

IDENTITY = RunIdentity(thread_id="t", run_id="r", agent_id="a")
RESUMED = ToolCallResume(action=DecisionAction.RESUME)


def call(tool: str = "pay", **changes: Any) -> GateCall:
    fields = {"identity": IDENTITY, "call_id": "c", "tool_name": tool, "arguments": {"n": 1}}
    return GateCall(**{**fields, **changes})


def saying(name: str, verdict: Verdict | None) -> Gate:
    return gate(name=name)(lambda _call: verdict)


async def verdict(
    *gates: Gate, policy: PermissionPolicy | None = None, asked: GateCall | None = None, rules: tuple[Rule, ...] = ()
) -> Verdict | None:
    registry = Registry(agents=[Agent(id="a", gates=gates, permissions=policy)])
    with gates_of(registry) as asking:
        return await asking.verdict(registry.resolve("a"), rules, asked or call())


@contextmanager
def gates_of(registry: Registry) -> Iterator[Gates]:
    with ThreadPoolExecutor(1, thread_name_prefix="wakeful-gate") as threads:
        yield Gates(registry, threads, timeout_seconds=0.2)


def policy(**rules: Behavior) -> PermissionPolicy:
    return PermissionPolicy(rules=tuple(Rule(tool=tool, behavior=behavior) for tool, behavior in rules.items()))


BLOCK, OTHER_BLOCK = Block(reason="no"), Block(reason="never")
SUSPEND, OTHER_SUSPEND = call().suspend("sure?"), call().suspend("really?")
RESULT, OTHER_RESULT = call().result(1), call().result(2)


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ([], None),
        ([None, None], None),
        ([None, RESULT], RESULT),
        ([RESULT, OTHER_RESULT], RESULT),
        ([RESULT, SUSPEND], SUSPEND),
        ([SUSPEND, OTHER_SUSPEND, RESULT], SUSPEND),
        ([SUSPEND, BLOCK], BLOCK),
        ([RESULT, BLOCK, OTHER_BLOCK, SUSPEND], BLOCK),
    ],
)
async def test_block_goes_before_suspend_before_a_result_and_then_the_first_counts(
    said: list[Verdict | None], counts: Verdict | None
) -> None:
    """B-230."""
    assert await verdict(*(saying(f"g{n}", verdict) for n, verdict in enumerate(said))) == counts


async def test_what_is_denied_is_blocked_and_no_gate_is_asked() -> None:
    """B-801."""
    asked: list[str] = []
    watching = gate(name="watching")(lambda call: asked.append(call.call_id))
    denied = Block(reason="Tool 'pay' denied by permission rules")
    assert await verdict(watching, policy=policy(pay=Behavior.DENY)) == denied
    assert asked == []


async def test_what_needs_a_person_is_suspended_until_somebody_decided() -> None:
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
    assert await verdict(policy=policy(pay=Behavior.ASK), asked=call(resume=RESUMED)) is None
    cancelled = call(resume=ToolCallResume(action=DecisionAction.CANCEL))
    assert await verdict(policy=policy(pay=Behavior.ASK), asked=cancelled) == suspended


async def test_what_is_denied_stays_so_whatever_somebody_decided() -> None:
    """B-337."""
    denied = Block(reason="Tool 'pay' denied by permission rules")
    assert await verdict(policy=policy(pay=Behavior.DENY), asked=call(resume=RESUMED)) == denied
    edited = call(arguments={"n": 1000}, resume=RESUMED)
    big = PermissionPolicy(rules=(Rule(tool='pay(n =~ "^[0-9]{4,}$")', behavior=Behavior.DENY),))
    assert await verdict(policy=big, asked=edited) == denied
    assert await verdict(policy=big, asked=call(resume=RESUMED)) is None


async def test_rules_of_the_thread_and_the_run_lie_over_the_agents() -> None:
    """B-803."""
    allowed = (Rule(tool="pay", behavior=Behavior.ALLOW),)
    assert await verdict(policy=policy(pay=Behavior.ASK), rules=allowed) is None
    denied = await verdict(rules=(Rule(tool="p*", behavior=Behavior.DENY),))
    assert denied == Block(reason="Tool 'pay' denied by permission rules")


async def test_a_gate_may_forbid_what_rules_allow_or_ask_about() -> None:
    for behavior in (Behavior.ALLOW, Behavior.ASK):
        assert await verdict(saying("g", BLOCK), policy=policy(pay=behavior)) == BLOCK
    asked = await verdict(saying("g", OTHER_SUSPEND), policy=policy(pay=Behavior.ASK))
    assert isinstance(asked, Suspend)
    assert asked.ticket.suspension.id == "perm_c"


async def test_a_tool_with_an_odd_name_is_remembered_by_that_name_alone() -> None:
    suspended = await verdict(policy=policy(), asked=call("a*"))
    assert isinstance(suspended, Suspend)
    remembered = (Rule(tool=suspended.ticket.remember or "", behavior=Behavior.ALLOW),)
    assert await verdict(policy=policy(), rules=remembered, asked=call("a*")) is None
    assert await verdict(policy=policy(), rules=remembered, asked=call("ab")) is not None


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
            return call.block("never asked")

    assert await verdict(in_a_thread, in_the_loop, gate(name="called")(Called())) == Block(reason="no pay")
    assert await verdict(gate(name="called")(Called())) == Block(reason="never asked")
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

    asked = call()
    assert await verdict(meddling, watching, asked=asked) is None
    assert (seen, asked.arguments) == ([{"n": 1}], {"n": 1})


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
    threading.Event().wait(0.5)
    return None


@gate
def chatty(call: GateCall) -> Verdict | None:
    return "yes, go on"  # type: ignore[return-value]


@gate
def nonsensical(call: GateCall) -> Verdict | None:
    return call.suspend("sure?", on_expiry="deny")


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        (raising, "gate 'raising' failed: ValueError: boom"),
        (silent, "gate 'silent' failed: KeyError"),
        (timing_out, "gate 'timing_out' failed: TimeoutError: the policy server does not answer"),
        (hanging, "gate 'hanging' failed: no answer within 0.2 s"),
        (hanging_in_a_thread, "gate 'hanging_in_a_thread' failed: no answer within 0.2 s"),
        (chatty, "gate 'chatty' failed: it returned a str, which is no verdict"),
        (nonsensical, "gate 'nonsensical' failed: ValueError: on_expiry='deny' needs expires_after, in seconds"),
    ],
)
async def test_a_gate_that_fails_blocks_the_call(failing: Gate, reason: str) -> None:
    assert await verdict(saying("fine", None), failing, saying("too", RESULT)) == Block(reason=reason)


async def test_a_gate_that_this_worker_does_not_have_blocks_the_call() -> None:
    agent = Registry(agents=[Agent(id="a", gates=[raising])]).resolve("a")
    with gates_of(Registry(agents=[Agent(id="a")])) as elsewhere:
        said = await elsewhere.verdict(agent, (), call())
    assert said == Block(reason="gate 'raising' failed: it is not on this worker; is its registry up to date?")


async def test_rules_that_cannot_be_read_block_the_call() -> None:
    said = await verdict(rules=(Rule(tool="pay(", behavior=Behavior.ALLOW),))
    assert isinstance(said, Block)
    assert said.reason.startswith("Tool 'pay' denied: its permission rules could not be evaluated: 'pay(', character 5")


async def test_a_result_that_is_too_long_is_cut() -> None:
    said = await verdict(saying("g", call().result("x" * (RESULT_LIMIT + 1))))
    assert isinstance(said, SetResult)
    assert "[cut: the result has" in said.result.text


async def test_verdicts_come_by_call_id_and_what_is_allowed_is_absent() -> None:
    registry = Registry(agents=[Agent(id="a", permissions=policy(look=Behavior.ALLOW, rm=Behavior.DENY))])
    calls = [call("look", call_id="1"), call("rm", call_id="2"), call("mail", call_id="3")]
    with gates_of(registry) as asking:
        verdicts = await asking.verdicts(registry.resolve("a"), (), calls)
    assert {id: said.verdict for id, said in verdicts.items()} == {"2": "block", "3": "suspend"}


def test_a_pending_result_is_a_result_like_any_other() -> None:
    """B-310."""
    assert call().result(ToolResult.suspended("pay")).result.status == "pending"
