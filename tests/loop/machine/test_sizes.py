"""Whatever the sizes of its parts, what a command is given fits: messages, decisions, state, context and arguments."""

import pytest

from tests.loop.driving import (
    AGENT,
    DRAFT,
    NO_INPUT,
    PARALLEL,
    THREAD,
    Driver,
    asks,
    call,
    make_ticket,
    ok,
    pending_with,
    resume,
    set_op,
    state_effects,
)
from wakeful.contract.base import json_bytes
from wakeful.contract.context import ContextMessage
from wakeful.contract.decisions import Expiry, ExpiryAction, ResumeMode
from wakeful.contract.hooks import Phase, PluginBinding
from wakeful.contract.limits import COMMAND_BYTES
from wakeful.contract.messages import InputMessage, Message, TextBlock
from wakeful.contract.runs import OnBusy
from wakeful.loop.calls.batch import INLINE_RESULTS_BYTES
from wakeful.loop.machine.commands import CallTool, Infer
from wakeful.loop.machine.facts import AgentResolved, MessagesSubmitted
from wakeful.loop.machine.stages import AwaitingDecisions, Inferring
from wakeful.loop.thread.views import status_view

STATEFUL = PARALLEL.model_copy(
    update={
        "plugins": (PluginBinding(id="p", phases=tuple(Phase)),),
        "state_keys": (DRAFT,),
    }
)


def given_bytes(command: Infer | CallTool) -> int:
    """The bytes of what varies in a command's input; the agent goes by its digest."""
    parts: tuple[object, ...]
    match command:
        case Infer():
            parts = (*command.appended, *command.context, *command.frontend_tools, command.overrides, command.state)
        case CallTool():
            parts = (command.call, command.resume, command.state)
    return sum(map(json_bytes, parts)) + sum(map(json_bytes, command.permissions))


def check(driver: Driver) -> None:
    for command in driver.last.commands:
        if isinstance(command, Infer | CallTool):
            assert given_bytes(command) <= COMMAND_BYTES


def steer(driver: Driver, *messages: InputMessage) -> None:
    driver.feed(MessagesSubmitted(messages, OnBusy.STEER))


@pytest.mark.parametrize("decided", [(1,), (255_000, 255_000, 85_000, 255_000)])
@pytest.mark.parametrize(("notes", "together"), [(0, True), (450, True), (450, False)])
def test_the_input_of_a_step_fits(decided: tuple[int, ...], notes: int, together: bool) -> None:
    """With state and context messages that are as long as they may be."""
    driver = Driver(STATEFUL, request=THREAD)
    effects = state_effects(set_op("draft", "s" * 390_000)).model_copy(
        update={"context": (ContextMessage(key="c", content=(TextBlock(text="c" * 190_000),)),)}
    )
    frontend = [call(f"c{number}", "pick") for number in range(len(decided))]
    driver.model(asks(call("paid", "pay"), *frontend))
    driver.tool("paid", ok("paid"), effects)
    said = [InputMessage(content="n" * 1_850) for _ in range(notes)]
    for messages in [said] if together else [[message] for message in said]:
        steer(driver, *messages)
    for number, size in enumerate(decided):
        driver.decide(resume(f"c{number}", "d" * size))
        check(driver)
        if isinstance(driver.thread.stage, AwaitingDecisions) and driver.thread.refusals:
            driver.decide(resume(f"c{number}", "short"))
    while isinstance(driver.thread.stage, Inferring) and driver.thread.steering:
        check(driver)
        driver.model(asks(call(f"next{driver.thread.counters.steps}", "unknown")))
    check(driver)
    assert not driver.thread.steering


def test_decisions_that_become_results_are_refused_once_they_are_too_large_together() -> None:
    driver = Driver(agent=PARALLEL)
    driver.model(asks(*(call(f"c{number}", "pick") for number in range(4))))
    for number in range(3):
        driver.decide(resume(f"c{number}", "x" * 250_000))
    assert f"more than {INLINE_RESULTS_BYTES:,} bytes together" in driver.thread.refusals[-1].reason
    driver.decide(resume("c2", "at https://files.example/shot"), resume("c3", "x" * 50_000))
    assert isinstance(driver.thread.stage, Inferring)
    assert [len(text) for _, text in driver.tool_results] == [250_000, 250_000, 29, 50_000]


def test_of_many_messages_in_one_signal_only_the_first_are_spelled_out() -> None:
    driver = Driver(request=NO_INPUT, agent=None)
    driver.feed(MessagesSubmitted(tuple(InputMessage(content="n" * 1_850) for _ in range(500))))
    driver.feed(AgentResolved(driver.last.commands[-1].id, AGENT, 1))
    (infer,) = driver.last.commands
    assert isinstance(infer, Infer)
    spelled_out = [entry for entry in infer.appended if isinstance(entry, Message)]
    assert 0 < len(spelled_out) < 100
    assert len(infer.appended) == 500


def test_a_status_shows_the_first_tickets_whole_and_cuts_the_rest() -> None:
    driver = Driver(agent=PARALLEL)
    driver.model(asks(*(call(f"c{number}", "pick", {"page": "x" * 120_000}) for number in range(8))))
    tickets = status_view(driver.thread).pending
    assert json_bytes(status_view(driver.thread)) < 1_000_000
    whole = [ticket for ticket in tickets if ticket.pending.arguments == {"page": "x" * 120_000}]
    assert tickets[: len(whole)] == tuple(whole)
    assert 0 < len(whole) < len(tickets) == 8
    last, suspended = tickets[-1], driver.thread.batch and driver.thread.batch.suspended[-1]
    assert suspended
    assert last.arguments_digest == suspended.ticket.arguments_digest
    assert str(last.pending.arguments).startswith("{'cut': '{\"page\":\"xxx")
    digest = last.arguments_digest
    driver.decide(*(resume(f"c{n}", "y").model_copy(update={"arguments_digest": digest}) for n in (7,)))
    assert not driver.thread.refusals


def test_results_that_the_loop_itself_makes_are_cut_once_they_are_too_large_together() -> None:
    """A deadline that decides for a person has no one to refuse."""
    driver = Driver(agent=PARALLEL)
    expiry = Expiry(after_seconds=60, then=ExpiryAction.RESUME, result="x" * 250_000)
    ticket = make_ticket("s", expiry=expiry, mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)
    driver.model(asks(*(call(f"c{number}") for number in range(4))))
    for number in range(4):
        driver.tool(f"c{number}", pending_with(ticket))
    driver.wait(61_000)
    assert isinstance(driver.thread.stage, Inferring)
    lengths = [len(text) for _, text in driver.tool_results]
    assert lengths[:2] == [250_000, 250_000]
    assert sum(lengths) < INLINE_RESULTS_BYTES + 5_000
    assert "[cut: the result has" in driver.tool_results[2][1]
    check(driver)
