"""A run whose sender watches it says so to every activity and sub-agent that it starts; other runs do not."""

from collections.abc import Callable

import pytest

from tests.loop.children import PARENT, delegate_call, spawn_call
from tests.loop.driving import (
    NO_INPUT,
    REQUEST,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    call,
    ok,
    says,
)
from wakeful.contract.messages import ToolCall
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy
from wakeful.loop.machine.commands import CallTool, Infer, StartChild
from wakeful.loop.thread.views import carryover


def watched(request: RunRequest) -> RunRequest:
    return request.model_copy(update={"live": True})


def infers(driver: Driver) -> list[bool]:
    return [command.live for command in driver.commands_of(Infer)]


@pytest.mark.parametrize("live", [False, True])
def test_the_request_says_whether_the_inferences_and_tools_of_its_run_are_watched(live: bool) -> None:
    driver = Driver(request=watched(REQUEST) if live else REQUEST)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    assert infers(driver) == [live, live]
    assert [command.live for command in driver.commands_of(CallTool)] == [live]


def test_each_run_of_a_thread_is_watched_by_its_own_sender() -> None:
    driver = Driver(request=THREAD)
    driver.model(says("Hello!"))
    driver.submit("m1", live=True)
    driver.resolve()
    driver.model(says("Yes."))
    driver.submit("m2")
    driver.resolve()
    assert infers(driver) == [False, True, False]


def test_a_run_is_watched_from_the_message_on_whose_sender_watches() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", on_busy=OnBusy.STEER, live=True)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    assert infers(driver) == [False, True]


def test_a_watched_run_stays_watched_when_its_thread_continues_as_new() -> None:
    driver = Driver(request=watched(THREAD))
    assert after_continue_as_new(driver.thread).current.settings.live


def test_a_message_that_a_closed_thread_has_not_read_is_still_watched_when_it_wakes() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", live=True)
    driver.cancel(close=True)
    driver.cancel_in_flight()
    woken = Driver(request=NO_INPUT, carryover=carryover(driver.thread))
    assert infers(woken) == [True]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("start", [delegate_call, spawn_call])
def test_sub_agents_of_a_watched_run_are_watched(live: bool, start: Callable[[str], ToolCall]) -> None:
    driver = Driver(PARENT, request=watched(THREAD) if live else THREAD)
    driver.model(asks(start("c1")))
    assert [command.request.live for command in driver.commands_of(StartChild)] == [live]
