"""The index of remembered outcomes finds and drops what a plain search of all of them does."""

import random

import pytest

from wakeful.contract import remembered_outcomes
from wakeful.contract.outcomes import Outcome, OutcomeStatus, newest_decision
from wakeful.contract.remembered_outcomes import Remembered, newest, remembered

STATUSES = (OutcomeStatus.READ, OutcomeStatus.REFUSED, OutcomeStatus.APPLIED, OutcomeStatus.HELD)


def _same(one: Outcome, other: Outcome) -> bool:
    calls = set(one.calls) & set(other.calls) or not (one.calls or other.calls)
    return (one.id, one.subject) == (other.id, other.subject) and bool(calls)


def _plainly(known: tuple[Outcome, ...], new: tuple[Outcome, ...], number: int) -> tuple[Outcome, ...]:
    every = (*(one for one in known if not any(_same(one, other) for other in new)), *new)
    kept = list[Outcome]()
    left = {True: number, False: number}
    for outcome in reversed(every):
        left[outcome.is_accepted_message] -= 1
        if left[outcome.is_accepted_message] >= 0:
            kept.append(outcome)
    return tuple(reversed(kept))


def _any(chance: random.Random) -> Outcome:
    calls = tuple(f"c{chance.randrange(9)}" for _ in range(chance.randrange(3)))
    subject = chance.choice(("", "", "s"))
    return Outcome(id=f"i{chance.randrange(9)}", status=chance.choice(STATUSES), calls=calls, subject=subject)


def test_it_remembers_what_a_plain_search_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_outcomes, "REMEMBERED_OUTCOMES", 7)
    chance, plain, indexed = random.Random(3), tuple[Outcome, ...](), Remembered()
    for _ in range(500):
        new = tuple(_any(chance) for _ in range(chance.randrange(1, 4)))
        earlier, plain, indexed = indexed, _plainly(plain, new, 7), indexed.with_newest(new)
        assert indexed == plain
        id, name = f"i{chance.randrange(9)}", f"c{chance.randrange(9)}"
        asked = chance.choice((indexed, earlier, remembered(tuple(indexed))))  # an earlier version builds its own
        assert asked.of(id) == tuple(outcome for outcome in asked if outcome.id == id)
        applied = [outcome for outcome in asked if outcome.status is OutcomeStatus.APPLIED]
        assert asked.has_decided([name]) == any(name in outcome.calls for outcome in applied)


def test_the_size_is_bounded_too() -> None:
    outcomes = [Outcome(id="é" * 500 + str(number), status=OutcomeStatus.READ) for number in range(300)]
    assert 80 < len(newest(outcomes)) < 100
    assert newest(outcomes)[-1] is outcomes[-1]


def test_an_outcome_that_is_too_large_by_itself_is_not_remembered() -> None:
    calls = tuple(f"{'c' * 250}{number}" for number in range(500))
    assert newest([Outcome(id="d1", status=OutcomeStatus.APPLIED, calls=calls)]) == ()


def test_an_applied_decision_that_earlier_releases_remembered_says_nothing_of_who_made_it() -> None:
    outcomes = newest([Outcome(id="d1", status=OutcomeStatus.APPLIED, calls=("c1",))])
    assert outcomes.has_decided(["c1"])
    assert newest_decision(outcomes, "c1") is None
