"""Gates in the two activities that evaluate them: with the model's answer, and just before a call is executed."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from tests.activities.wiring import activities, cache_of, environment, raw
from wakeful import (
    Agent,
    Behavior,
    FrontendTool,
    GateCall,
    ModelResponse,
    PermissionPolicy,
    Registry,
    Rule,
    ToolContext,
    Verdict,
    call,
    gate,
    say,
    tool,
)
from wakeful.authoring.scripted import ScriptedModel, Turn
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import DecisionAction, ToolCallResume
from wakeful.contract.error_text import error_text
from wakeful.contract.gates import SetResult
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolResult
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.history.conversation import Conversation
from wakeful.history.decoder import ExecutionRef
from wakeful_activities import HistoryCache

ALLOW, ASK, DENY = Behavior.ALLOW, Behavior.ASK, Behavior.DENY
IDENTITY = RunIdentity(thread_id="test", run_id="r", agent_id="a")
RESUMED = ToolCallResume(action=DecisionAction.RESUME)

executed: list[object] = []
gated: list[GateCall] = []


@pytest.fixture(autouse=True)
def _clear() -> None:
    executed.clear()
    gated.clear()


@tool
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    executed.append((ctx.arguments, ctx.resume_input.arguments if ctx.resume_input else None))
    return f"paid {amount}"


@tool(read_only=True)
def look(where: str) -> str:
    """Look."""
    executed.append(where)
    return where


@gate
def modest(call: GateCall) -> Verdict | None:
    """Small sums pass, none is paid twice, big ones need a person, and huge ones are out of the question."""
    gated.append(call)
    amount = call.arguments.get("amount", 0) if isinstance(call.arguments, dict) else 0
    assert isinstance(amount, int)
    if amount > 1000:
        return call.block("too much")
    if amount > 100 and not call.approved:
        return call.suspend(f"Pay {amount}?")
    return call.result("already paid") if amount == 0 and call.tool_name == "pay" else None


def policy(default: Behavior = ALLOW, **rules: Behavior) -> PermissionPolicy:
    return PermissionPolicy(
        default_behavior=default, rules=tuple(Rule(tool=tool, behavior=behavior) for tool, behavior in rules.items())
    )


def registered(turn: Turn | None = None, **changes: Any) -> tuple[Registry, ResolvedAgent, HistoryCache, ScriptedModel]:
    model = ScriptedModel([turn or say("hello")])
    agent = Agent(id="a", model="m", tools=[pay, look], **changes)
    registry = Registry(agents=[agent], models={"m": model})
    resolved = registry.resolve("a")
    return registry, resolved, cache_of(resolved), model


async def infer(turn: Turn, *, run: Sequence[Rule] = (), **changes: Any) -> tuple[ModelResponse, ScriptedModel]:
    frontend = changes.pop("frontend_tools", ())
    registry, agent, cache, model = registered(turn, **changes)
    message = Message(id="1", role=Role.USER, content=(TextBlock(text="go"),))
    input = InferInput(
        agent=agent.digest(),
        transcript=TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, message)),
        appended=(message,),
        permissions=tuple(run),
        frontend_tools=frontend,
    )
    with activities(registry, cache) as made:
        return await environment().run(made.infer.infer, input), model


async def run_tool(
    name: str,
    arguments: dict[str, Any],
    *,
    run: Sequence[Rule] = (),
    resume: ToolCallResume | None = None,
    is_gated: bool = True,
    **changes: Any,
) -> ToolOutcome:
    registry, agent, cache, _ = registered(**changes)
    input = ToolCallInput(
        call=ToolCall(id="c", name=name, arguments=arguments),
        identity=IDENTITY,
        idempotency_key="k",
        resume=resume,
        agent=agent.digest() if is_gated else None,
        permissions=tuple(run),
    )
    with activities(registry, cache) as made:
        return await environment(tool=input.call.name).run(made.tools.call_tool, raw(input))


async def test_an_answer_has_the_gates_verdicts_on_its_calls() -> None:
    """B-230."""
    turn = call("pay", amount=5) & call("pay", amount=500) & call("pay", amount=5000) & call("pay", amount=0)
    response, _ = await infer(turn, gates=[modest])
    ids = [made.id for made in response.tool_calls]
    assert {id: verdict.verdict for id, verdict in response.verdicts.items()} == dict(
        zip(ids[1:], ["suspend", "block", "set_result"], strict=True)
    )
    assert [(made.call_id, made.is_first_check, made.resume) for made in gated] == [(id, True, None) for id in ids]
    assert (gated[0].tool, gated[0].identity.thread_id) == (pay.descriptor, "test")


async def test_rules_come_before_gates_and_hide_tools_that_they_always_deny() -> None:
    """B-801, B-802."""
    rules = policy(pay=ASK, look=DENY)
    response, model = await infer(
        call("pay", amount=1) & call("look", where="up").unchecked(), permissions=rules, gates=[modest]
    )
    assert [tool.id for tool in model.requests[0].tools] == ["pay"]
    first, second = (response.verdicts[made.id] for made in response.tool_calls)
    assert (first.verdict, second.model_dump()) == (
        "suspend",
        {"verdict": "block", "reason": "Tool 'look' denied by permission rules", "rule": "look"},
    )


async def test_a_run_and_its_thread_may_hide_tools_and_show_none_that_the_agent_denies() -> None:
    """B-803."""
    run = [Rule(tool="look", behavior=ALLOW), Rule(tool="pay", behavior=DENY), Rule(tool="draw", behavior=DENY)]
    frontend = (FrontendTool(id="draw").descriptor(), FrontendTool(id="show").descriptor())
    response, model = await infer(
        call("look", where="up").unchecked(), permissions=policy(look=DENY), run=run, frontend_tools=frontend
    )
    assert [tool.id for tool in model.requests[0].tools] == ["show"]
    assert [verdict.verdict for verdict in response.verdicts.values()] == ["block"]


async def test_gates_see_calls_of_front_end_tools_and_of_unknown_tools() -> None:
    frontend = (FrontendTool(id="draw").descriptor(),)
    await infer(call("draw", what="a cat") & call("fly").unchecked(), gates=[modest], frontend_tools=frontend)
    assert [(made.tool_name, made.tool) for made in gated] == [("draw", frontend[0]), ("fly", None)]


async def test_without_gates_and_rules_there_are_no_verdicts() -> None:
    response, model = await infer(call("pay", amount=5000))
    assert (response.verdicts, gated) == ({}, [])
    assert "verdicts" not in response.model_dump_json()
    assert len(model.requests[0].tools) == 2


async def test_a_malformed_rule_fails_the_inference_before_the_model_is_called() -> None:
    with pytest.raises(ApplicationError) as error:
        await infer(say("hello"), run=[Rule(tool="pay(", behavior=DENY)])
    assert (error.value.type, error.value.non_retryable) == ("InvalidPermissions", True)
    assert "permission rule 'pay(', character 5: the '(' is never closed" in (error_text(error.value.details) or "")
    assert "pay(" not in str(error.value)


async def test_gates_are_evaluated_again_just_before_the_call() -> None:
    """B-231."""
    outcome = await run_tool("pay", {"amount": 5}, gates=[modest])
    assert outcome == ToolOutcome(result=ToolResult.success("pay", "paid 5"))
    (made,) = gated
    assert (made.identity, made.is_first_check, made.tool, made.resume) == (IDENTITY, False, pay.descriptor, None)


async def test_a_call_that_is_blocked_just_before_is_not_executed() -> None:
    outcome = await run_tool("pay", {"amount": 5000}, gates=[modest])
    assert outcome == ToolOutcome(result=ToolResult.rejected("pay", "too much"), blocked="too much")
    assert executed == []


async def test_a_call_that_is_suspended_just_before_is_not_executed_until_a_decision() -> None:
    outcome = await run_tool("pay", {"amount": 500}, gates=[modest])
    assert (outcome.result.status, outcome.result.message, outcome.blocked) == ("pending", "Pay 500?", None)
    assert outcome.result.suspension is not None
    assert outcome.result.suspension.pending.arguments == {"amount": 500}
    assert executed == []
    outcome = await run_tool("pay", {"amount": 500}, gates=[modest], resume=RESUMED)
    assert outcome.result.data == "paid 500"


async def test_a_call_whose_gate_sets_a_result_is_not_executed() -> None:
    outcome = await run_tool("pay", {"amount": 0}, gates=[modest])
    assert outcome == ToolOutcome(result=ToolResult.success("pay", "already paid"))
    assert executed == []


async def test_a_gate_that_sets_a_pending_result_suspends_the_call() -> None:
    @gate
    def later(call: GateCall) -> Verdict | None:
        return SetResult(result=ToolResult.suspended(call.tool_name, message="later"))

    assert (await run_tool("pay", {"amount": 1}, gates=[later])).gated
    assert (await run_tool("pay", {"amount": 500}, gates=[modest])).gated
    assert not (await run_tool("pay", {"amount": 0}, gates=[modest])).gated


async def test_permission_is_asked_for_once_and_a_denial_holds_after_a_decision() -> None:
    """B-801, B-337."""
    outcome = await run_tool("pay", {"amount": 5}, permissions=policy(pay=ASK))
    assert outcome.result.suspension is not None
    assert outcome.result.suspension.suspension.id == "perm_c"
    outcome = await run_tool("pay", {"amount": 5}, permissions=policy(pay=ASK), resume=RESUMED)
    assert outcome.result.data == "paid 5"
    executed.clear()
    outcome = await run_tool("pay", {"amount": 5}, permissions=policy(pay=DENY), resume=RESUMED)
    assert outcome.blocked == "Tool 'pay' denied by permission rules"
    assert executed == []


async def test_rules_that_the_thread_has_remembered_meanwhile_count() -> None:
    remembered = [Rule(tool="pay", behavior=ALLOW)]
    assert (await run_tool("pay", {"amount": 5}, permissions=policy(ASK), run=remembered)).result.data == "paid 5"


async def test_edited_arguments_are_gated_and_seen_by_the_tool() -> None:
    edited = ToolCallResume(action=DecisionAction.RESUME, arguments={"amount": 7})
    outcome = await run_tool("pay", {"amount": 7}, gates=[modest], resume=edited)
    assert (outcome.result.data, executed) == ("paid 7", [({"amount": 7}, {"amount": 7})])
    outcome = await run_tool("pay", {"amount": 5000}, gates=[modest], resume=edited)
    assert outcome.blocked == "too much"


async def test_a_call_without_an_agent_is_not_gated() -> None:
    outcome = await run_tool("pay", {"amount": 5000}, gates=[modest], is_gated=False)
    assert (outcome.result.data, gated) == ("paid 5000", [])


@pytest.mark.parametrize(
    ("field", "why"),
    [("agent", "its gates could not be evaluated"), ("metadata_digest", "the metadata of its run could not be read")],
)
async def test_a_call_whose_agent_or_metadata_cannot_be_read_is_not_executed_and_says_so(field: str, why: str) -> None:
    class Unreachable(HistoryCache):
        async def _read(self, execution: ExecutionRef) -> Conversation:
            raise ConnectionError("history is out of reach")

    registry, agent, _, _ = registered(gates=[modest])
    input = ToolCallInput(
        call=ToolCall(id="c", name="pay", arguments={"amount": 1}), identity=IDENTITY, idempotency_key="k"
    ).model_copy(update={field: agent.digest()})
    with activities(registry, Unreachable(cast("Client", None))) as made:
        outcome = await environment(tool=input.call.name).run(made.tools.call_tool, raw(input))
    message = f"The call was not executed, because {why}: history is out of reach. You can call it again."
    assert outcome == ToolOutcome(result=ToolResult.error("pay", message))
    assert executed == []
