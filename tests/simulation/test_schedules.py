"""Random schedules find nothing. `make simulate` runs more of them; a failure names its seed."""

import logging
import os
import warnings

import pytest

from tests.simulation.minimise import minimised
from tests.simulation.schedule import Result, repeat, run

SCHEDULES = int(os.environ.get("WAKEFUL_SCHEDULES", "12"))
SHARES = 12

CHEAP = (
    *(12, 30, 32, 33, 38, 39, 47, 52, 53, 55, 58, 63, 65, 72, 73, 74, 75, 76, 77, 84, 85, 86, 95, 96, 100, 117),
    *(15, 20, 26, 27, 29, 44, 50, 64, 68, 92, 97, 106, 109),
)
"""Seeds of schedules that take the least time; in the first ones, rules and budgets are set."""


@pytest.fixture(autouse=True)
def _quiet() -> object:
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("share", range(SHARES))
def test_random_schedules_leave_no_run_stuck_and_lose_nothing(share: int) -> None:
    """I-01 to I-13, on every order of events that the seeds produce."""
    for seed in (*range(SCHEDULES), *CHEAP)[share::SHARES]:
        result = run(str(seed))
        assert result.error is None, f"make simulate SEED={seed}: {result.error}"


def test_one_seed_is_one_schedule() -> None:
    first, second = run("3"), run("3")
    assert first.moves == second.moves
    assert _histories(first) == _histories(second)


def test_the_moves_of_a_schedule_repeat_it() -> None:
    first = run("4")
    second = repeat("4", first.moves[: first.wild], traced=True)
    assert second.moves == first.moves
    assert _histories(first) == _histories(second)
    assert second.trace is not None
    assert any("workflow_task_completed" in line for line in second.trace)


def test_a_failing_schedule_is_minimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a check that fails as soon as a worker was killed, one kill is left."""

    def no_kills(result: Result) -> None:
        result.wild = len(result.moves)
        if any(key.startswith("kill") for key in result.moves):
            raise AssertionError("a worker was killed")

    monkeypatch.setattr("tests.simulation.schedule.finish", no_kills)
    result = next(result for seed in range(20) if (result := run(str(seed))).error is not None)
    assert result.problem == "AssertionError: a worker was killed"
    assert [key.split(" ")[0] for key in minimised(result)] == ["kill"]


def _histories(result: Result) -> list[list[bytes]]:
    executions = result.world.server.executions
    return [[event.SerializeToString(deterministic=True) for event in each.history] for each in executions]
