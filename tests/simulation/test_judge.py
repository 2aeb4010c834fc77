"""The real core and its model agree on what the simulation produces, and on histories that no worker wrote."""

import logging
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import pairwise

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from tests.simulation.chunking import COMMAND_EVENTS
from tests.simulation.core import completed_part
from tests.simulation.execution import Execution
from tests.simulation.handwritten import without
from tests.simulation.judge import CHANGED, RealCore, Replay, difference, judge, judge_schedules, replay_on_model
from tests.simulation.schedule import run
from tests.simulation.world import World

SCHEDULES = 3
STEPS = 50

ACTIVITY = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
CHILD = EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED

Change = Callable[[Sequence[HistoryEvent]], list[HistoryEvent] | None]
"""Makes a history that the workflow cannot have; None if it has no such place."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(logging.NOTSET)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def core() -> AsyncIterator[RealCore]:
    async with RealCore() as started:
        yield started


@pytest.fixture(scope="module")
def world() -> World:
    """One with parallel calls, children, timers and local activities."""
    logging.disable(logging.CRITICAL)
    return run("4").world


@pytest.mark.blocks_loop  # it simulates whole schedules
async def test_the_real_core_agrees_on_simulated_histories() -> None:
    verdicts = await judge_schedules([str(seed) for seed in range(SCHEDULES)], STEPS)
    assert verdicts.schedules == SCHEDULES
    assert verdicts.histories > 5 * SCHEDULES
    assert not verdicts.disagreements, f"{CHANGED}: {verdicts}"


def handled(world: World) -> list[Execution]:
    """The executions with a completed workflow task."""
    return [execution for execution in world.server.executions if execution.previous_started]


def copied(history: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    copies = [HistoryEvent() for _ in history]
    for copy, event in zip(copies, history, strict=True):
        copy.CopyFrom(event)
    return copies


def swap_commands(history: Sequence[HistoryEvent]) -> list[HistoryEvent] | None:
    """Two commands of one workflow task in the other order."""
    for index, (first, second) in enumerate(pairwise(history)):
        if first.event_type == second.event_type == ACTIVITY:
            swapped = copied(history)
            swapped[index], swapped[index + 1] = swapped[index + 1], swapped[index]
            swapped[index].event_id, swapped[index + 1].event_id = first.event_id, second.event_id
            return swapped
    return None


def swap_kinds_of_commands(history: Sequence[HistoryEvent]) -> list[HistoryEvent] | None:
    """The same with commands of different kinds."""
    for index, (first, second) in enumerate(pairwise(history)):
        if {first.event_type, second.event_type} < COMMAND_EVENTS and first.event_type != second.event_type:
            swapped = copied(history)
            swapped[index], swapped[index + 1] = swapped[index + 1], swapped[index]
            swapped[index].event_id, swapped[index + 1].event_id = first.event_id, second.event_id
            return swapped
    return None


def rename_activity(history: Sequence[HistoryEvent]) -> list[HistoryEvent] | None:
    renamed = copied(history)
    scheduled = [event for event in renamed if event.event_type == ACTIVITY]
    for event in scheduled[-1:]:
        event.activity_task_scheduled_event_attributes.activity_type.name = "renamed"
    return renamed if scheduled else None


def change_activity_id(history: Sequence[HistoryEvent]) -> list[HistoryEvent] | None:
    changed = copied(history)
    scheduled = [event for event in changed if event.event_type == ACTIVITY]
    for event in scheduled[:1]:
        event.activity_task_scheduled_event_attributes.activity_id = "changed"
    return changed if scheduled else None


def rename_child(history: Sequence[HistoryEvent]) -> list[HistoryEvent] | None:
    renamed = copied(history)
    initiated = [event for event in renamed if event.event_type == CHILD]
    for event in initiated[:1]:
        event.start_child_workflow_execution_initiated_event_attributes.workflow_id = "renamed"
    return renamed if initiated else None


def drop_command(history: Sequence[HistoryEvent]) -> list[HistoryEvent] | None:
    """The first activity was never scheduled, nor what refers to it."""
    first = next((event for event in history if event.event_type == ACTIVITY), None)
    if first is None:
        return None
    left = list(history)
    for event in reversed(history):
        attributes = getattr(event, str(event.WhichOneof("attributes")))
        is_about_it = "ACTIVITY_TASK" in EventType.Name(event.event_type) and (
            getattr(attributes, "scheduled_event_id", 0) == first.event_id
        )
        if event is first or is_about_it:
            left = without(left, event.event_id - 1)
    return left


def drop_result(history: Sequence[HistoryEvent]) -> list[HistoryEvent] | None:
    """The first activity that another one follows never ended."""
    ended = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
    index = next((index for index, event in enumerate(history) if event.event_type == ended), None)
    is_followed = index is not None and any(event.event_type == ACTIVITY for event in history[index:])
    return without(history, index) if index is not None and is_followed else None


CHANGES: dict[str, Change] = {
    "two activities in another order": swap_commands,
    "two commands in another order": swap_kinds_of_commands,
    "another activity": rename_activity,
    "another activity id": change_activity_id,
    "another child": rename_child,
    "a command is missing": drop_command,
    "a result is missing": drop_result,
}


async def replays(core: RealCore, execution: Execution, history: Sequence[HistoryEvent]) -> tuple[Replay, Replay]:
    real = await core.replay(execution.workflow_id, history)
    return real, replay_on_model(execution.workflow_id, execution.run_id, history)


@pytest.mark.parametrize("name", CHANGES)
async def test_both_reject_a_history_that_the_workflow_cannot_have(name: str, core: RealCore, world: World) -> None:
    changed = 0
    for execution in handled(world):
        if (wrong := CHANGES[name](completed_part(execution.history))) is None:
            continue
        real, model = await replays(core, execution, wrong)
        assert (real.failure is None) == (model.failure is None), f"{execution.workflow_id}: {real.failure}, {model}"
        changed += real.failure is not None
    assert changed, "no history has a place for this change"


async def test_a_difference_of_the_activations_is_a_disagreement(core: RealCore, world: World) -> None:
    """The judge compares more than verdicts: times and lengths, and what jobs have."""
    execution = handled(world)[0]
    real, model = await replays(core, execution, completed_part(execution.history))
    assert difference(real, model) is None
    model.activations[1].history_length += 1
    assert "history_length" in (difference(real, model) or "")
    model.activations[1].history_length -= 1
    model.activations[1].jobs.add().signal_workflow.signal_name = "more"
    assert "signal_name" in (difference(real, model) or "")
    del model.activations[1:]
    assert "the model 1" in (difference(real, model) or "")


async def test_a_disagreement_names_its_execution(core: RealCore, world: World) -> None:
    """A model that rejects what the real core accepts is found."""
    with pytest.MonkeyPatch.context() as patched:
        rejecting = Replay([], "no")
        patched.setattr("tests.simulation.judge.replay_on_model", lambda *_: rejecting)
        found = await judge(world, core)
    assert [each.run_id for each in found] == [execution.run_id for execution in handled(world)]
    assert all("verdict" in str(each) for each in found)
