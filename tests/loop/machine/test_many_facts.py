"""A thousand signals in one workflow task: the time of each does not grow with all that came before.

The bounds are generous; before, most of these took longer than the two seconds after which the SDK fails the task.
"""

import time
from collections.abc import Callable

import pytest

from tests.loop.driving import THREAD, Driver, asks, call, input_message, make_agent, ok, resume
from wakeful.contract.agents import ToolMode
from wakeful.contract.runs import OnBusy
from wakeful.loop.calls.batch import RunningCall
from wakeful.loop.machine.facts import DecisionsReceived, Fact, MessagesSubmitted

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


def _seconds(act: Callable[[], object]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began
