"""The invariants hold in random histories: facts in any order, with failures, repeats, cancels and late arrivals.

`make test` checks 500 histories and `make faults` 10,000; to check more, set `WAKEFUL_HISTORIES` and run pytest on
this file. A failure names the seed of its history, and `World(Random(seed))` generates that history again.
"""

import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.loop.generating import World
from wakeful.contract.runs import RunStatus
from wakeful.loop.machine.facts import CancelRequested
from wakeful.loop.machine.stages import Done

HISTORIES = int(os.environ.get("WAKEFUL_HISTORIES", "500"))
SHARES = 10


@pytest.mark.no_cover  # other tests reach every line; counting them here would take most of the time
@pytest.mark.parametrize("share", range(SHARES))
def test_the_invariants_hold_in_random_histories(share: int) -> None:
    """I-02 to I-07, H-01 to H-06, H-18, H-21"""
    for seed in range(share, HISTORIES, SHARES):
        try:
            _check_history(World(Random(seed)))
        except Exception as error:
            raise AssertionError(f"the history of seed {seed} breaks an invariant") from error


@pytest.mark.no_cover
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.randoms(use_true_random=False))
def test_hypothesis_finds_no_history_that_breaks_an_invariant(random: Random) -> None:
    """Hypothesis makes the random choices, so that it can shrink a history that fails."""
    _check_history(World(random))


def _check_history(world: World) -> None:
    world.make_moves()
    world.finish_all_work()
    assert world.run.thread.status in (RunStatus.WAITING, RunStatus.DONE)
    world.run.feed(CancelRequested(close=True))
    world.finish_all_work()  # its run_end hooks
    assert isinstance(world.run.thread.stage, Done)
