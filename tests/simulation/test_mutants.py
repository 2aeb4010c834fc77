"""The simulation finds every mutant with the schedule of one seed, which finds nothing without the mutant."""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.mutants import BY_NAME, MUTANTS, recorded
from tests.simulation.schedule import run

FOUND = recorded()
AGAIN = "python -m tests.simulation.mutants"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", FOUND)
def test_the_simulation_finds_a_mutant(name: str) -> None:
    with BY_NAME[name].apply():
        error = run(str(FOUND[name].seed)).error
    found = f"{type(error).__name__}: {error}"
    assert found.startswith(FOUND[name].error), f"{found}; if the workload has changed, find it again: {AGAIN}"


@pytest.mark.parametrize("seed", sorted({found.seed for found in FOUND.values()}))
def test_the_same_seed_finds_nothing_without_the_mutant(seed: int) -> None:
    assert run(str(seed)).error is None


def test_what_is_recorded_is_a_mutant() -> None:
    assert FOUND.keys() <= {mutant.name for mutant in MUTANTS}
