"""The simulation finds every mutant with the schedule of one seed, which finds nothing without the mutant.

A change of what workflows do can shift what a seed means, so a few more are tried if the recorded one finds nothing.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.mutants import BY_NAME, MUTANTS, find, recorded

pytestmark = pytest.mark.faults  # minutes, where the seeds have shifted

FOUND = recorded()
TRIED = 20
AGAIN = "python -m tests.simulation.mutants"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", FOUND)
def test_the_simulation_finds_a_mutant(name: str) -> None:
    assert find(BY_NAME[name], TRIED) is not None, f"find it again, and record its seed: {AGAIN}"


def test_what_is_recorded_is_a_mutant() -> None:
    assert FOUND.keys() <= {mutant.name for mutant in MUTANTS}
