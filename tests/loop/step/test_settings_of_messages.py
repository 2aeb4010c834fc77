"""Permissions, budget and frontend tools of a message: they are for the run that it starts."""

from typing import Any

import pytest

from tests.loop.children import awaiting_tasks, spawn_call
from tests.loop.driving import REQUEST, THREAD, Driver, after_continue_as_new, asks, call, idle, says
from wakeful.contract.budgets import Budget
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy
from wakeful.contract.tools import FrontendTool
from wakeful.loop.machine.facts import CancelRequested, WorkCancelled
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.views import carryover
from wakeful.loop.thread.waiting import WAITING_BYTES

DENY = Rule(tool="look", behavior=Behavior.DENY)
LIMIT = Budget(turns=3)
PICK, SHOW = FrontendTool(id="pick"), FrontendTool(id="show")
"""What the front end of the driver's threads has, and another tool."""
SETTINGS: dict[str, Any] = {"permissions": (DENY,), "budget": LIMIT, "frontend_tools": (SHOW,)}


def settings(thread: Thread) -> tuple[tuple[Rule, ...], Budget, list[str]]:
    run = thread.current
    return run.permissions, run.budget.limit, [tool.id for tool in thread.frontend_tools]


@pytest.mark.parametrize("on_busy", OnBusy)
def test_a_message_that_starts_a_run_sets_its_permissions_budget_and_frontend_tools(on_busy: OnBusy) -> None:
    driver = idle()
    driver.submit("m1", on_busy=on_busy, **SETTINGS)
    driver.resolve()
    assert settings(driver.thread) == ((DENY,), LIMIT, ["show"])
    assert driver.inference().frontend_tools == (SHOW.descriptor(),)
    assert driver.inference().permissions == (DENY,)


def test_a_queued_message_sets_them_for_the_later_run_alone() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", **SETTINGS)
    driver.submit("m2")
    assert settings(driver.thread) == ((), Budget(), ["pick"])
    driver.model(says("One."))
    driver.resolve()
    assert settings(driver.thread) == ((DENY,), LIMIT, ["show"])
    driver.model(says("Two."))
    driver.resolve()
    assert settings(driver.thread) == ((), Budget(), ["show"])  # the thread keeps its front end


def test_the_frontend_tools_of_a_later_message_replace_those_of_the_thread() -> None:
    driver = Driver(request=THREAD)
    driver.model(says("One."))
    driver.submit("m1", frontend_tools=(SHOW,))
    driver.resolve()
    driver.model(asks(call("c1", "show")))
    assert (settings(driver.thread)[2], driver.call_statuses) == (["show"], ["suspended"])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"permissions": (DENY,)}, "permissions"),
        ({"budget": LIMIT}, "budgets"),
        ({"frontend_tools": (SHOW,)}, "frontend tools"),
        (SETTINGS, "permissions, budgets, frontend tools"),
    ],
)
@pytest.mark.parametrize(
    ("request_", "on_busy"), [(THREAD, OnBusy.STEER), (REQUEST, OnBusy.STEER), (REQUEST, OnBusy.ENQUEUE)]
)
def test_a_message_that_the_run_under_way_would_read_cannot_set_them(
    request_: RunRequest, on_busy: OnBusy, given: dict[str, Any], named: str
) -> None:
    driver = Driver(request=request_)
    driver.submit("m1", on_busy=on_busy, **given)
    assert driver.refusal_reasons == [
        f"{named} apply to the run that messages start, but the run under way reads these"
    ]
    assert (driver.thread.queued, driver.thread.steering) == ((), ())


@pytest.mark.parametrize("given", [{name: value} for name, value in SETTINGS.items()], ids=str)
def test_a_run_that_waits_for_its_tasks_leaves_such_a_message_to_the_next_run(given: dict[str, Any]) -> None:
    driver = awaiting_tasks(spawn_call("c1"), thread=True)
    driver.submit("m1", **given)
    assert [later.message.id for later in driver.thread.queued] == ["m1"]


def test_they_survive_continue_as_new() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", **SETTINGS)
    (later,) = after_continue_as_new(driver.thread).queued
    assert (later.permissions, later.budget, later.frontend_tools) == ((DENY,), LIMIT, (SHOW,))


def test_they_survive_a_close_and_a_wake() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", **SETTINGS)
    driver.feed(CancelRequested("enough", close=True), WorkCancelled("infer-1"))
    woken = Driver(request=THREAD.model_copy(update={"input": ""}), carryover=carryover(driver.thread))
    assert settings(woken.thread) == ((DENY,), LIMIT, ["show"])


def test_a_rollback_restores_the_frontend_tools() -> None:
    driver = Driver(request=THREAD)
    driver.model(says("One."))
    driver.submit("m1", frontend_tools=(SHOW,))
    driver.resolve()
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    driver.feed(WorkCancelled(driver.inference().id))
    assert settings(driver.thread)[2] == ["pick"]


def test_they_count_as_input_that_waits() -> None:
    driver = Driver(request=THREAD)
    large = tuple(FrontendTool(id=f"t{number}", description="x" * 100_000) for number in range(11))
    assert sum(len(tool.description) for tool in large) > WAITING_BYTES
    driver.submit("m1", frontend_tools=large)
    assert len(driver.refusal_reasons) == 1
    assert "bytes can wait" in driver.refusal_reasons[0]
