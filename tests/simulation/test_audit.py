"""The audit of each fact notices authority that widens."""

from collections.abc import Callable
from unittest.mock import patch

from tests.loop import driving
from tests.loop.children import delegate_call
from tests.loop.driving import Driver, asks, call, ok
from tests.loop.subagents.test_authority import ASK_LOOK, CHILD, governed, handed_off, thread_of
from tests.simulation.audit import Audit
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.facts import Fact
from wakeful.loop.machine.state import Advance, Thread


def problem_of(play: Callable[[], object]) -> str:
    audit = Audit()

    def noting(thread: Thread, fact: Fact, *, now: int) -> Advance:
        made = advance(thread, fact, now=now)
        audit.note(thread, fact, made)
        return made

    with patch.object(driving, "advance", noting):
        play()
    return audit.problem


def delegating() -> None:
    Driver(governed(ASK_LOOK), request=CHILD).model(asks(delegate_call("c1")))


def test_a_call_that_runs_without_the_decision_that_a_handoff_left_behind_is_a_problem() -> None:
    def play() -> None:
        driver = handed_off(thread_of(ASK_LOOK))
        driver.model(asks(call("c1")))
        driver.tool("c1", ok("x"))

    assert problem_of(play) == "look c1 ran without a decision that something above asks for"


def test_a_sub_agent_that_starts_without_its_parents_rules_is_a_problem() -> None:
    assert problem_of(delegating) == ""
    with patch.object(Thread, "passed_on", property(lambda _thread: ())):
        assert problem_of(delegating) == "a sub-agent starts without the rule for 'look'"
