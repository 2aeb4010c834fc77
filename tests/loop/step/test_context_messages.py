"""Context messages between the runs and the agents of a thread, and when it is woken."""

from tests.loop.children import BILLING
from tests.loop.driving import (
    AGENT,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    call,
    ok,
    says,
)
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import ContextMessage
from wakeful.contract.hooks import HookEffects
from wakeful.contract.messages import TextBlock
from wakeful.loop.machine.facts import AgentResolved
from wakeful.loop.machine.state import KEPT_CONTEXTS, ContextState
from wakeful.loop.thread.views import carryover


def message(key: str, *, cooldown: int = 0) -> ContextMessage:
    return ContextMessage(key=key, content=(TextBlock(text=key),), persistent=True, cooldown_turns=cooldown)


def with_context(*messages: ContextMessage, agent: ResolvedAgent = AGENT) -> ResolvedAgent:
    return agent.model_copy(update={"context_messages": messages})


def keys(driver: Driver) -> list[str]:
    """The context messages of the newest request."""
    return [message.key for message in driver.inference().context]


def next_run(driver: Driver, id: str, agent: ResolvedAgent) -> list[str]:
    """End the run and start the next one: its context messages."""
    driver.model(says("Hello!"))
    driver.submit(id, agent_id=agent.agent_id)
    driver.resolve(agent)
    return keys(driver)


def test_a_cooldown_counts_the_steps_of_the_thread_and_not_those_of_a_run() -> None:
    """B-483"""
    agent = with_context(message("tone", cooldown=2))
    driver = Driver(agent, request=THREAD)
    shown = [keys(driver), *(next_run(driver, f"m{number}", agent) for number in range(4))]
    assert shown == [["tone"], [], ["tone"], [], ["tone"]]


def test_a_cooldown_that_a_long_run_has_started_passes_in_later_runs() -> None:
    agent = with_context(message("tone", cooldown=3))
    driver = Driver(agent, request=THREAD)
    for number in range(6):
        driver.model(asks(call(f"c{number}")))
        driver.tool(f"c{number}", ok("sunny"))
    assert keys(driver) == ["tone"]  # in the seventh step
    assert [next_run(driver, f"m{number}", agent) for number in range(3)] == [[], [], ["tone"]]


def test_the_agent_of_the_next_run_is_not_shown_the_messages_of_the_one_before() -> None:
    driver = Driver(with_context(message("secret")), request=THREAD)
    assert next_run(driver, "m1", with_context(message("money"), agent=BILLING)) == ["money"]


def test_an_agent_that_takes_a_run_over_is_not_shown_the_messages_of_the_one_before() -> None:
    driver = Driver(with_context(message("secret")))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"), HookEffects(handoff="billing"))
    driver.feed(AgentResolved("handoff-1", with_context(message("money"), agent=BILLING)))
    assert keys(driver) == ["money"]


def test_an_agent_that_answers_again_is_shown_what_its_hooks_have_added() -> None:
    driver = Driver(with_context(message("declared", cooldown=9)), request=THREAD)
    driver.model(asks(call("c1")), HookEffects(context=(message("added"),)))
    driver.tool("c1", ok("sunny"))
    assert keys(driver) == ["added"]
    assert next_run(driver, "m1", BILLING) == []
    assert next_run(driver, "m2", with_context(message("declared", cooldown=9))) == ["added"]


def test_a_message_that_an_agent_no_longer_declares_is_not_shown() -> None:
    driver = Driver(with_context(message("old"), message("same")), request=THREAD)
    driver.model(asks(call("c1")), HookEffects(context=(message("added"),)))
    driver.tool("c1", ok("sunny"))
    assert next_run(driver, "m1", with_context(message("new"), message("same"))) == ["added", "new", "same"]


def test_a_thread_keeps_the_messages_of_the_newest_agents() -> None:
    context = ContextState()
    for number in range(KEPT_CONTEXTS + 3):
        context = context.for_agent(f"a{number}")
        context = ContextState(context.agent_id, context.messages.upserting(message("m")), context.others)
    assert [other.agent_id for other in context.others] == [f"a{number}" for number in range(2, KEPT_CONTEXTS + 2)]


def test_context_messages_survive_continue_as_new_and_waking() -> None:
    agent = with_context(message("tone", cooldown=3))
    driver = Driver(agent, request=THREAD)
    driver.model(says("Hello!"), HookEffects(context=(message("added"),)))
    assert after_continue_as_new(driver.thread).context == driver.thread.context
    driver.submit("m1", agent_id="billing")
    driver.resolve(with_context(message("money"), agent=BILLING))
    driver.model(says("Paid."))
    driver.cancel(close=True)
    woken = Driver(agent, request=THREAD, carryover=carryover(driver.thread))
    assert keys(woken) == ["added"]  # the second step since "tone" was shown
    assert next_run(woken, "m2", agent) == ["added", "tone"]
