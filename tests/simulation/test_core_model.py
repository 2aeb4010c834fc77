"""The model of core does what the SDK's real core does: the same activations of the same histories."""

import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from tests.replay.record import HISTORIES
from tests.simulation.chunking import chunk_end
from tests.simulation.core import replayed
from tests.simulation.handwritten import NEW_RUN_ID, RUN_ID, WORKFLOW_ID, Small, Written
from tests.simulation.judge import CHANGED, RealCore, Replay, difference, replay_on_model
from tests.simulation.seeds import random_seed
from tests.simulation.service import CONVERTER
from tests.simulation.workers import WORKFLOWS

RECORDED = sorted(HISTORIES.glob("*.json"))
SMALL = {"Small": Small}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def real_core() -> AsyncIterator[RealCore]:
    async with RealCore() as core:
        yield core


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def small_core() -> AsyncIterator[RealCore]:
    async with RealCore(SMALL) as core:
        yield core


def history_in(path: Path) -> tuple[str, str, Sequence[HistoryEvent]]:
    events = WorkflowHistory.from_json("recorded", json.loads(path.read_text())).events
    started = events[0].workflow_execution_started_event_attributes
    return started.workflow_id, started.original_execution_run_id, events


# -- recorded histories ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_history_replays_on_the_model(path: Path) -> None:
    """With equal inputs, which core does not compare."""
    workflow_id, run_id, history = history_in(path)
    replayed(workflow_id, run_id, history, WORKFLOWS, CONVERTER, strict=True).evict()


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_the_real_core_makes_the_same_activations_of_a_recorded_history(path: Path, real_core: RealCore) -> None:
    workflow_id, run_id, history = history_in(path)
    real = await real_core.replay(workflow_id, history)
    found = difference(real, replay_on_model(workflow_id, run_id, history))
    assert found is None, f"{CHANGED}: {found}"


# -- the rules, each on the smallest history that shows it -------------------------------------------------------------

LOST_TASK = Written().scheduled().started().timed_out().task().signal("note").task()
HEARTBEAT = Written().task().task().signal("note").task()
HEARTBEAT_AFTER_COMMAND = (
    Written().signal("schedule").task().activity().signal("note").task().task().signal("note").task()
)
COMMAND_BEFORE_EMPTY_TASK = Written().signal("schedule").task().activity().scheduled().started().completed().task()
UPDATE_AFTER_EMPTY_TASK = Written().task().task().update(5).signal("note").task()
UPDATE_IN_FIRST_TASK = Written().task().update(2).signal("note").task()
USUAL = Written().signal("schedule").task().activity().activity_completed().task().signal("note").task()
JOBS = (
    Written()
    .signal("schedule")
    .task()
    .activity()
    .activity_completed()
    .signal("note")
    .scheduled()
    .started()
    .reset()
    .task()
)

HANDWRITTEN = {
    "lost task": LOST_TASK,
    "heartbeat": HEARTBEAT,
    "heartbeat after a command": HEARTBEAT_AFTER_COMMAND,
    "command before an empty task": COMMAND_BEFORE_EMPTY_TASK,
    "update after an empty task": UPDATE_AFTER_EMPTY_TASK,
    "update in the first task": UPDATE_IN_FIRST_TASK,
    "usual": USUAL,
    "jobs": JOBS,
}


async def replays(core: RealCore, written: Written) -> tuple[Replay, Replay]:
    real = await core.replay(WORKFLOW_ID, written.events)
    return real, replay_on_model(WORKFLOW_ID, RUN_ID, written.events, SMALL)


@pytest.mark.parametrize("name", HANDWRITTEN)
async def test_the_real_core_follows_the_rules(name: str, small_core: RealCore) -> None:
    real, model = await replays(small_core, HANDWRITTEN[name])
    assert (real.failure, model.failure) == (None, None)
    found = difference(real, model)
    assert found is None, f"{CHANGED}: {found}"


def ends(written: Written, length: int | None = None) -> list[int]:
    """The ids of the last events of all chunks."""
    history = written.events[:length]
    found: list[int] = []
    while not found or found[-1] < len(history):
        start = found[-1] if found else 0
        found.append(history[chunk_end(history, start, start)].event_id)
    return found


def test_a_task_that_was_lost_does_not_end_a_chunk() -> None:
    assert ends(LOST_TASK, 6) == [6]


def test_an_empty_task_that_another_one_follows_at_once_does_not_end_a_chunk() -> None:
    assert ends(HEARTBEAT)[0] == 6
    assert ends(HEARTBEAT, 4)[0] == 3, "before the next task was scheduled"


def test_a_chunk_with_a_command_ends_at_its_task() -> None:
    assert ends(COMMAND_BEFORE_EMPTY_TASK)[:2] == [4, 8]


def test_an_update_ends_the_chunk_before_the_task_that_brought_it() -> None:
    assert ends(UPDATE_AFTER_EMPTY_TASK)[0] == 3
    assert ends(UPDATE_AFTER_EMPTY_TASK, 7)[0] == 6, "before the update was accepted"
    assert ends(UPDATE_IN_FIRST_TASK)[0] == 3


def test_a_completed_task_ends_a_chunk() -> None:
    assert ends(USUAL)[:2] == [4, 10]


def test_the_newest_task_ends_a_chunk_that_has_a_command_or_the_start() -> None:
    assert ends(USUAL, 4) == [4]
    assert ends(USUAL, 10)[-1] == 10
    assert chunk_end(HEARTBEAT.events[:6], 3, 3) == 5, "else it is all that is left"


def test_the_end_of_an_execution_ends_a_chunk() -> None:
    _, _, history = history_in(HISTORIES / "one_tool_call.json")
    task = max(index for index, event in enumerate(history) if event.HasField("workflow_task_started_event_attributes"))
    assert chunk_end(history, task + 1, task + 1) == len(history) - 1


async def test_jobs_are_ordered_by_kind(small_core: RealCore) -> None:
    """The activity ended before the signal came, and the reset is the newest."""
    for replay in await replays(small_core, JOBS):
        jobs = [job.WhichOneof("variant") for job in replay.activations[1].jobs]
        assert jobs == ["update_random_seed", "signal_workflow", "resolve_activity"]


@pytest.mark.parametrize(("run_id", "seed"), [(RUN_ID, 10877614735986049528), (NEW_RUN_ID, 16607078492599731684)])
def test_the_random_seed_of_a_run_is_known(run_id: str, seed: int) -> None:
    """The real core made these; old histories depend on them."""
    assert random_seed(run_id) == seed


async def test_the_random_seed_is_made_of_the_run_id_and_after_a_reset_of_the_new_one(small_core: RealCore) -> None:
    real, _ = await replays(small_core, JOBS)
    assert real.activations[0].jobs[0].initialize_workflow.randomness_seed == random_seed(RUN_ID)
    assert real.activations[1].jobs[0].update_random_seed.randomness_seed == random_seed(NEW_RUN_ID)
