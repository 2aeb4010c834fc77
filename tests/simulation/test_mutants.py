"""The simulation finds every mutant with the schedule of one seed, which finds nothing without the mutant."""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.schedule import run

FOUND = [mutant for mutant in MUTANTS if mutant.seed is not None]
AGAIN = "python -m tests.simulation.mutants"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("mutant", FOUND, ids=lambda mutant: mutant.name)
def test_the_simulation_finds_a_mutant(mutant: Mutant) -> None:
    with mutant.apply():
        error = run(str(mutant.seed)).error
    found = f"{type(error).__name__}: {error}"
    assert found.startswith(mutant.found_by), f"{found}; if the workload has changed, find it again: {AGAIN}"


@pytest.mark.parametrize("seed", sorted({mutant.seed for mutant in FOUND if mutant.seed is not None}))
def test_the_same_seed_finds_nothing_without_the_mutant(seed: int) -> None:
    assert run(str(seed)).error is None


def test_at_least_twelve_mutants_are_found_by_seeds() -> None:
    assert len(FOUND) >= 12
