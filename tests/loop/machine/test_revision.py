"""A run stays pinned to the revision of the loop that it started with."""

import pytest

from tests.loop.driving import AGENT, THREAD, Driver, after_continue_as_new, resolving, says, truncated
from wakeful.loop.machine.facts import AgentResolved
from wakeful.loop.machine.revisions import REVISION


@pytest.mark.parametrize(("recorded", "pinned"), [(REVISION, REVISION), (REVISION + 1, REVISION)])
def test_a_run_is_pinned_to_the_recorded_revision_or_the_newest_that_the_code_knows(recorded: int, pinned: int) -> None:
    assert Driver(revision=recorded).thread.current.revision == pinned


def test_a_resolution_without_a_revision_pins_the_first() -> None:
    driver = resolving()
    driver.feed(AgentResolved("resolve-1", AGENT))
    assert driver.thread.current.revision == 1


def test_the_next_run_of_a_thread_is_pinned_to_the_revision_of_its_own_resolution() -> None:
    driver = Driver(request=THREAD, revision=1)
    driver.model(says("Hello!"))
    driver.submit("m1")
    driver.revision = REVISION
    driver.resolve()
    assert driver.thread.current.revision == REVISION


def test_the_revision_survives_continue_as_new() -> None:
    driver = Driver(revision=1)
    assert after_continue_as_new(driver.thread).current.revision == 1


def test_the_count_of_continuations_survives_continue_as_new() -> None:
    """B-141"""
    driver = Driver()
    driver.model(truncated("Part 1"))
    after = after_continue_as_new(driver.thread)
    assert (after.current.step.continuations, after.stage) == (1, driver.thread.stage)
