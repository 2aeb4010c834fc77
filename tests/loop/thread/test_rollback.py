"""A rollback restores the thread from before the run: what it undoes, and what it does not."""

from tests.loop.children import BILLING
from tests.loop.driving import (
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    call,
    make_ticket,
    merge_op,
    ok,
    resume,
    says,
    set_op,
    state_effects,
    with_hooks,
)
from wakeful.contract.base import replace
from wakeful.contract.context import Compaction, CompactionMark, ContextMessage
from wakeful.contract.decisions import Decision
from wakeful.contract.gates import Suspend
from wakeful.contract.hooks import HookEffects
from wakeful.contract.messages import TextBlock
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import OnBusy, Usage
from wakeful.loop.machine.facts import AgentResolved, CompactionReturned

AGENT = with_hooks()
TONE = ContextMessage(key="tone", content=(TextBlock(text="Be kind."),), persistent=True, cooldown_turns=9)


def second_run(first: HookEffects | None = None) -> Driver:
    """A thread in its second run; hooks of its first one have had these effects."""
    driver = Driver(AGENT, request=THREAD)
    driver.model(says("Hello!"), first)
    driver.submit("m1")
    driver.resolve(AGENT)
    return driver


def roll_back(driver: Driver) -> None:
    driver.submit("rb", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()


def always(decision: Decision) -> Decision:
    return decision.model_copy(update={"always": True})


def test_a_rollback_restores_the_agent_state_of_both_scopes() -> None:
    driver = second_run(state_effects(merge_op("visits", 1), set_op("draft", "first run's")))
    driver.model(asks(call("c1")), state_effects(merge_op("visits", 1), set_op("draft", "gone"), base=9))
    assert driver.thread.agent_state.view.values == {"visits": 2, "draft": "gone"}
    written = driver.thread.agent_state.revision
    roll_back(driver)
    assert driver.thread.agent_state.view.values == {"visits": 1}
    assert driver.thread.agent_state.revision > written
    driver.resolve(AGENT)
    driver.model(says("Again."))
    assert driver.events_of("state_snapshot")[-1].model_dump()["snapshot"]["extensions"] == {"visits": 1}


def test_a_rollback_of_a_run_that_wrote_nothing_changes_no_state() -> None:
    driver = second_run(state_effects(merge_op("visits", 1)))
    before = driver.thread.agent_state
    roll_back(driver)
    assert driver.thread.agent_state == before


def test_a_rollback_takes_back_what_decisions_of_the_run_have_always_allowed() -> None:
    driver = second_run()
    ticket = make_ticket("s1", remember="look")
    driver.model(asks_gated(call("c1"), c1=Suspend(ticket=ticket)))
    driver.decide(always(resume("s1")))
    allowed = driver.thread.permissions
    roll_back(driver)
    assert (allowed, driver.thread.permissions) == ((Rule(tool="look", behavior=Behavior.ALLOW),), ())


def test_a_rollback_returns_the_thread_to_the_agent_before_a_handoff() -> None:
    driver = second_run()
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"), HookEffects(handoff="billing"))
    driver.feed(AgentResolved("handoff-1", BILLING))
    taken_over = driver.thread.active_agent
    roll_back(driver)
    assert (taken_over, driver.thread.identity.agent_id, driver.thread.active_agent) == ("billing", "assistant", None)


def test_a_rollback_returns_the_thread_to_the_agent_before_the_message() -> None:
    driver = Driver(AGENT, request=THREAD)
    driver.model(says("Hello!"))
    driver.submit("m1", agent_id="billing")
    driver.resolve(BILLING)
    roll_back(driver)
    assert (driver.thread.identity.agent_id, driver.thread.active_agent) == ("assistant", None)


def test_a_rollback_takes_back_context_messages_and_their_cooldowns() -> None:
    agent = AGENT.model_copy(update={"context_messages": (TONE,)})
    driver = Driver(AGENT, request=THREAD)
    driver.model(says("Hello!"))
    driver.submit("m1")
    driver.resolve(agent)
    added = TONE.model_copy(update={"key": "added", "cooldown_turns": 0})
    driver.model(asks(call("c1")), HookEffects(context=(added,)))
    driver.tool("c1", ok("sunny"))
    assert [message.key for message in driver.inference().context] == ["added"]
    roll_back(driver)
    driver.resolve(agent)
    assert [message.key for message in driver.inference().context] == ["tone"]


def mark(through: int) -> CompactionMark:
    return CompactionMark(through=through, summary=f"{through}", pre_tokens=6_000, post_tokens=100)


def test_a_rollback_keeps_a_summary_of_messages_that_are_left_and_restores_the_one_before_otherwise() -> None:
    driver = second_run()
    before, made = Compaction(source="compact-1", mark=mark(1)), Compaction(source="compact-2", mark=mark(2))
    context = replace(driver.thread.context, compaction=before)
    for newest, expected in ((made, made), (Compaction(source="compact-2", mark=mark(3)), before), (None, before)):
        run = replace(driver.thread.current, before=replace(driver.thread.before_run, context=context))
        thread = replace(driver.thread, run=run, context=replace(context, compaction=newest, token_factor=2.0))
        again = Driver(AGENT, request=THREAD)
        again.last = replace(driver.last, thread=thread)
        again.submit("rb", on_busy=OnBusy.ROLLBACK)
        again.cancel_in_flight()
        assert (again.thread.context.compaction, again.thread.context.token_factor) == (expected, 2.0)


def test_a_rollback_does_not_take_back_what_was_paid() -> None:
    driver = second_run()
    driver.model(asks(call("c1"), usage=Usage(total_tokens=7)))
    compacting = replace(driver.thread.context, compacting="compact-1")
    driver.last = replace(driver.last, thread=replace(driver.thread, context=compacting))
    roll_back(driver)
    assert driver.thread.context.compacting == "compact-1"
    driver.feed(CompactionReturned("compact-1", None, Usage(total_tokens=5)))
    assert driver.thread.current.usage == Usage(total_tokens=5)


def test_what_a_rollback_restores_survives_continue_as_new() -> None:
    driver = second_run(state_effects(merge_op("visits", 1)))
    driver.model(asks(call("c1")), state_effects(merge_op("visits", 1), base=9))
    driver.last = replace(driver.last, thread=after_continue_as_new(driver.thread))
    roll_back(driver)
    assert driver.thread.agent_state.view.values == {"visits": 1}


def test_a_run_of_a_snapshot_without_it_is_rolled_back_to_the_messages_before_it() -> None:
    driver = second_run()
    driver.model(asks(call("c1")), state_effects(merge_op("visits", 1)))
    driver.last = replace(driver.last, thread=replace(driver.thread, run=replace(driver.thread.current, before=None)))
    roll_back(driver)
    assert (driver.texts, driver.thread.agent_state.view.values) == (["Hello", "Hello!", "And then?"], {"visits": 1})
