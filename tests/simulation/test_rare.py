"""Directed schedules give a thread the facts that random ones rarely do, and nothing goes wrong."""

import pytest

from tests.simulation.coverage import Coverage, collecting
from tests.simulation.impossible import impossible
from tests.simulation.rare import RARE, Rare


@pytest.mark.parametrize("rare", RARE, ids=lambda rare: rare.name)
def test_a_rare_fact_meets_its_stage(rare: Rare) -> None:
    coverage = Coverage()
    with collecting(coverage):
        rare.play()
    assert set(rare.cells) <= coverage.cells
    assert not coverage.contradictions


def test_what_is_rare_is_not_impossible() -> None:
    assert not {cell for rare in RARE for cell in rare.cells} & impossible(()).keys()
