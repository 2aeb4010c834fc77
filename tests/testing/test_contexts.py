"""Unit tests of tools and gates: their contexts, without a server."""

import pytest

from wakeful import (
    GateCall,
    ProfileKey,
    Profiles,
    SqliteProfileStore,
    StateKey,
    ToolCallResume,
    ToolContext,
    Verdict,
    agent_owner,
    gate,
    tool,
)
from wakeful.contract.decisions import DecisionAction
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.gates import Block, Suspend
from wakeful.testing import SuspendCall, make_gate_call, make_identity, make_tool_context

VISITS = StateKey("visits", int, default=0, merge="add")
TONE = ProfileKey("tone", str, default="friendly")


class Database:
    name = "orders"


@tool
def order(item: str, pieces: int, ctx: ToolContext) -> str:
    """Order an item. A person approves it first."""
    if ctx.resume_input is None:
        ctx.suspend(f"Order {pieces} x {item}?")
    if ctx.resume_input.action is DecisionAction.CANCEL:
        return f"not ordered: {ctx.resume_input.reason}"
    return f"ordered {pieces} x {item}"


def test_a_tool_that_suspends_raises_its_question() -> None:
    with pytest.raises(SuspendCall, match=r"Order 7 x cup\?") as stopped:
        order("cup", 7, make_tool_context(order, {"item": "cup", "pieces": 7}))
    ticket = stopped.value.ticket
    assert (ticket.suspension.action, ticket.pending.arguments) == ("tool:order", {"item": "cup", "pieces": 7})


def test_a_tool_that_is_resumed_reads_the_decision() -> None:
    assert order("cup", 7, make_tool_context(order, resume_input="resume")) == "ordered 7 x cup"
    denied = ToolCallResume(action=DecisionAction.CANCEL, reason="too dear")
    assert order("cup", 7, make_tool_context(order, resume_input=denied)) == "not ordered: too dear"


def test_a_context_has_what_a_test_gives_it() -> None:
    @tool
    def describe(ctx: ToolContext[Database]) -> list[object]:
        """Describe the call."""
        return [ctx.deps.name, ctx.user, ctx.tenant, ctx.metadata["order"], ctx.attempt, ctx.tool_name, ctx.run_mode]

    context = make_tool_context(
        describe, deps=Database(), user="ann", tenant="acme", metadata={"order": 7}, attempt=2, resume_input="resume"
    )
    assert describe(context) == ["orders", "ann", "acme", 7, 2, "describe", "resume"]
    assert context.idempotency_key == make_tool_context("other").idempotency_key, "the same for every attempt"
    scheduled = make_tool_context(identity=make_identity(agent_id="clerk", run_mode="scheduled"))
    assert (scheduled.identity.agent_id, scheduled.run_mode) == ("clerk", "scheduled")


def test_a_context_remembers_what_the_tool_shows_and_sends() -> None:
    context = make_tool_context("fetch")
    context.report("halfway", progress=0.5)
    context.stream("line 1\n")
    context.stream("line 2\n")
    context.show_activity("plan", {"steps": ["look"]})
    context.patch_activity("plan", {"op": "add", "path": "/steps/-", "value": "buy"})
    assert context.emit("found", {"n": 1})
    assert context.emit_message("look at this")
    context.add_context("hint", "Be brief.")
    recorded = context.recorded
    assert recorded.progress == [{"message": "halfway", "progress": 0.5}]
    assert recorded.output == ["line 1\n", "line 2\n"]
    assert recorded.activities == {"plan": {"steps": ["look", "buy"]}}
    assert (recorded.events, recorded.messages) == ([("found", {"n": 1})], ["look at this"])
    assert [message.key for message in context.requests.context] == ["hint"]


def test_a_tool_continues_at_the_checkpoint_that_a_test_gives_it() -> None:
    @tool(idempotent=True)
    def count(ctx: ToolContext) -> int:
        """Count to five."""
        done = ctx.last_checkpoint if isinstance(ctx.last_checkpoint, int) else 0
        for number in range(done + 1, 6):
            ctx.checkpoint(number)
        return 5 - done

    context = make_tool_context(count, attempt=2, last_checkpoint=3)
    assert count(context) == 2
    assert context.recorded.checkpoints == [4, 5]


def test_a_context_has_the_state_that_its_agent_declares() -> None:
    context = make_tool_context(state={VISITS: 2})
    context.state.add(VISITS, 3)
    assert (context.state.get(VISITS), len(context.state.operations)) == (5, 1)
    with pytest.raises(ConfigurationError, match="does not declare state key 'visits'"):
        make_tool_context().state.get(VISITS)


async def test_a_context_has_profiles() -> None:
    store = SqliteProfileStore()
    try:
        context = make_tool_context(profiles=Profiles(store, [TONE]))
        await context.profiles.set(agent_owner("a"), TONE, "stern")
        assert await context.profiles.get(agent_owner("a"), TONE) == "stern"
    finally:
        await store.aclose()


def test_a_call_can_be_cancelled_while_its_tool_runs() -> None:
    answers = iter([False, True])
    polled = make_tool_context(cancelled=lambda: next(answers))
    assert [polled.cancelled, polled.cancelled] == [False, True]
    assert (make_tool_context().cancelled, make_tool_context(cancelled=True).cancelled) == (False, True)


def test_a_gate_is_called_with_a_call_of_its_test() -> None:
    @gate
    def cautious(call: GateCall[Database]) -> Verdict | None:
        if call.user is None:
            return call.block(f"{call.tool_name} needs a user of {call.deps.name}")
        return None if call.approved else call.suspend("Sure?")

    assert cautious(make_gate_call(order, deps=Database())) == Block(reason="order needs a user of orders")
    assert isinstance(cautious(make_gate_call("order", deps=Database(), user="ann")), Suspend)
    assert cautious(make_gate_call(order, deps=Database(), user="ann", resume="resume")) is None
    assert make_gate_call(order).tool == order.descriptor


def test_a_context_of_a_tool_that_takes_a_value_of_the_lifespan_needs_deps() -> None:
    @tool
    def count(ctx: ToolContext[Database]) -> str:
        """Count the rows."""
        return ctx.deps.name

    @tool
    def guess(ctx: ToolContext[Database | None]) -> str:
        """Guess the rows."""
        return "many" if ctx.deps is None else ctx.deps.name

    with pytest.raises(ConfigurationError, match=r"^tool 'count' takes a Database: pass deps=…$"):
        make_tool_context(count)
    assert count(make_tool_context(count, deps=Database())) == "orders"
    assert guess(make_tool_context(guess)) == "many"
