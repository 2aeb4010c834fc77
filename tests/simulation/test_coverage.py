"""The schedules reach every stage with every kind of fact, and nothing that cannot happen."""

import logging
import warnings

import pytest

from tests.simulation.coverage import CALM, FACTS, FAULTS, IMPOSSIBLE, Coverage, cover, cover_directed, report
from wakeful.loop.machine.transitions import STAGES

SCHEDULES = 60

pytestmark = pytest.mark.faults  # half a minute

NEVER = frozenset({"LoopFailed"})
"""Facts that only a bug causes."""

MISSED = 25
"""Cells that so few schedules may leave empty; `docs/testing.md` has the table of many, which fill every cell."""


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coverage = cover(map(str, range(SCHEDULES)))
        coverage.add(cover_directed())
    logging.disable(logging.NOTSET)
    return coverage


def test_nothing_happens_that_cannot_happen(coverage: Coverage) -> None:
    assert not coverage.contradictions, [(cell, IMPOSSIBLE[cell]) for cell in coverage.contradictions]


def test_the_schedules_reach_every_stage(coverage: Coverage) -> None:
    possible = {stage for stage in STAGES if any((stage, fact) not in IMPOSSIBLE for fact in FACTS)}
    assert {stage for stage, _ in coverage.cells} == possible
    assert possible == STAGES.keys() - {"between_steps"}


def test_the_schedules_cause_every_fact(coverage: Coverage) -> None:
    assert set(FACTS) - {fact for _, fact in coverage.cells} == NEVER


def test_the_schedules_fill_most_cells(coverage: Coverage) -> None:
    assert len(coverage.empty) <= MISSED, coverage.empty


def test_facts_follow_every_kind_of_fault(coverage: Coverage) -> None:
    assert {fault for _, _, fault in coverage.taken} == {CALM, *FAULTS}


def test_the_report_shows_what_is_missing() -> None:
    coverage = Coverage(schedules=1)
    coverage.taken["idle", "MessagesSubmitted", "kill"] = 1200
    shown = report(coverage).splitlines()
    row = next(line for line in shown if line.startswith("| `MessagesSubmitted` | 1,200 (1) | **0** |"))
    assert row.count("**0**") == len(STAGES) - 2
    assert any(line.startswith("- `inferring`: InferenceReturned, ") for line in shown)
    coverage.taken["idle", "LoopFailed", CALM] = 1
    assert "Seen, although" in report(coverage)
