"""A thousand signals in one workflow task: the time of each does not grow with all that came before.

The bounds are generous; before, most of these took longer than the two seconds after which the SDK fails the task.
"""

import sys
import time
from collections.abc import Callable

import pytest

from tests.loop.driving import (
    REQUEST,
    THREAD,
    Driver,
    asks,
    call,
    input_message,
    make_agent,
    make_ticket,
    ok,
    pending_with,
    resume,
)
from wakeful.contract.agents import ToolMode
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import OnBusy
from wakeful.contract.subagents import SubagentContext
from wakeful.loop.calls.batch import RunningCall
from wakeful.loop.machine.facts import (
    DecisionsReceived,
    Fact,
    MessagesSubmitted,
    RevocationRequested,
    WithdrawalRequested,
)
from wakeful.loop.thread.waiting import WAITING_COUNT

MANY = 1_000
CALLS = 256

Facts = Callable[[int], Fact]


def steering(number: int) -> Fact:
    return MessagesSubmitted((input_message(f"m{number}"),), OnBusy.STEER)


def enqueued(number: int) -> Fact:
    return MessagesSubmitted((input_message(f"m{number}"),), OnBusy.ENQUEUE)


def repeated(number: int) -> Fact:
    return MessagesSubmitted((input_message(f"m{number % 300}"),), OnBusy.STEER)


def held(number: int) -> Fact:
    return DecisionsReceived((resume(f"c{number % CALLS}", "yes", id=f"d{number}"),))


def refused(number: int) -> Fact:
    return DecisionsReceived((resume(f"unknown{number}", "yes", id=f"d{number}"),))


def withdrawn(number: int) -> Fact:
    return WithdrawalRequested((f"m{number}",), request_id=f"r{number}")


def withdrawing_a_hundred(number: int) -> Fact:
    return WithdrawalRequested(tuple(f"x{number}-{each}" for each in range(100)), request_id=f"r{number}")


@pytest.mark.parametrize("fact", [steering, enqueued, repeated, held, refused])
def test_a_thousand_signals_take_little_time(fact: Facts) -> None:
    driver = Driver(request=THREAD)
    driver.model(asks(*(call(f"c{number}") for number in range(CALLS))))
    assert _seconds(lambda: driver.feed(*map(fact, range(MANY)))) < 2


def test_the_calls_of_a_long_answer_take_little_time() -> None:
    driver = Driver(make_agent(ToolMode.PARALLEL), request=THREAD)
    driver.model(asks(*(call(f"c{number}") for number in range(CALLS))))

    def call_all() -> None:
        while driver.thread.batch is not None and (running := driver.thread.batch.running):
            for each in running:
                assert isinstance(each, RunningCall)
                driver.tool(each.call.id, ok("done"))

    assert _seconds(call_all) < 2
    assert driver.thread.batch is None


@pytest.mark.parametrize(
    ("fact", "most"),
    [(withdrawn, 4_000), (withdrawing_a_hundred, 9_000)],
    ids=["of a message that waits", "of a hundred others"],
)
def test_a_withdrawal_is_not_compared_with_every_message_that_waits(fact: Facts, most: int) -> None:
    driver = Driver(request=THREAD)
    driver.feed(*map(enqueued, range(WAITING_COUNT)))
    assert _calls(lambda: driver.feed(*map(fact, range(WAITING_COUNT)))) < most * WAITING_COUNT


def test_a_held_decision_takes_little_work_each_time_that_another_call_changes() -> None:
    driver = Driver(make_agent(ToolMode.PARALLEL), request=THREAD)
    driver.model(asks(*(call(f"c{number}") for number in range(CALLS))))
    driver.feed(*(DecisionsReceived((resume("c255", "yes", id=f"d{number}"),)) for number in range(WAITING_COUNT)))
    assert _calls(lambda: driver.tool("c0", ok("done"))) < 80 * WAITING_COUNT


RULES = tuple(Rule(tool=f"t{number}(*x*)", behavior=Behavior.DENY) for number in range(200))


def test_the_rules_of_a_sub_agent_are_not_compared_with_those_of_its_parent_for_each_call() -> None:
    context = SubagentContext(path=("parent",), work_id="w1")
    request = REQUEST.model_copy(update={"permissions": RULES, "parent_thread_id": "parent", "subagent": context})
    driver = Driver(make_agent(ToolMode.PARALLEL), request=request)
    assert _calls(lambda: driver.model(asks(*(call(f"c{number}") for number in range(50))))) < 50 * 10 * len(RULES)
    assert driver.tool_commands("c49")[0].permissions == RULES


def test_a_revocation_does_not_read_all_rules_for_each_that_it_names() -> None:
    driver = Driver(request=THREAD.model_copy(update={"permissions": RULES}))
    named = tuple(f"x{number}" for number in range(100))
    revoked = [RevocationRequested(named, request_id=f"r{number}") for number in range(20)]
    assert _calls(lambda: driver.feed(*revoked)) < 20 * 100 * 100


def test_the_arguments_of_a_call_are_read_once_for_all_decisions_about_it() -> None:
    long = call("c1", arguments=[["x"] * 1_000] * 100)
    ticket = make_ticket("s1").model_copy(update={"pending": long})
    driver = Driver(request=THREAD)
    driver.model(asks(long))
    driver.tool("c1", pending_with(ticket))
    other = resume("c1", id="d1").model_copy(update={"arguments_digest": "of others"})
    assert _seconds(lambda: driver.feed(*[DecisionsReceived((other,))] * MANY)) < 2


def _calls(act: Callable[[], object]) -> int:
    """How many functions are called: a measure of time that is the same on every machine."""
    count = 0

    def on_call(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_call)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


def _seconds(act: Callable[[], object]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began
