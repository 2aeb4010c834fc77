"""A directed schedule: a world in which the model answers as scripted, and one move follows another as written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from pydantic import JsonValue
from temporalio import activity

from tests.simulation import people, workload
from tests.simulation.execution import Execution
from tests.simulation.reader import reading_simulated_histories
from tests.simulation.schedule import Result, find, finish, make
from tests.simulation.workers import Settings
from tests.simulation.world import Move, Options, World
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.context import DEFAULT_SUMMARIZER_SYSTEM_PROMPT
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.contract.messages import ToolCall
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import ThreadMode
from wakeful.contract.settings import RunSettings

Call = tuple[str, Mapping[str, JsonValue]]
"""A tool and its arguments."""

MAX_MOVES = 500
NO_SETTINGS = RunSettings()
NO_RULES: Mapping[str, Rule] = {}

CALM = Options(settings=Settings(budget=HistoryBudget(events=2000), search_attributes=()), workers=1)


class Scenario:
    """One schedule of the thread `t1`. A move is named by how its key begins."""

    def __init__(self, seed: str, options: Options) -> None:
        self.world = World(seed, options)
        self.result = Result(seed, self.world)

    @property
    def name(self) -> str:
        """The thread's newest execution, as moves name it."""
        return f"t1@{self.world.server.current['t1'].run_id[:4]}"

    @property
    def length(self) -> int:
        """Of the thread's newest history."""
        return len(self.world.server.current["t1"].history)

    def go(self) -> None:
        """Whatever is due happens, until nothing is."""
        for _ in range(MAX_MOVES):
            self.world.settle()
            if (move := next(self.world.due(), None)) is None:
                return
            make(self.result, move)
        raise AssertionError(f"there is no end: {self.result.moves[-10:]}")

    def stop_before(self, stage: str) -> None:
        """Whatever is due happens, until the thread is in the stage, or an execution of it will start in it."""
        people, server = self.world.people, self.world.server
        for _ in range(MAX_MOVES):
            self.world.settle()
            if people.stage_of(server.current["t1"]) == stage:
                return
            make(self.result, next(self.world.due()))
        raise AssertionError(f"it never comes to that: {self.result.moves[-10:]}")

    def run_activity(self, id: str) -> None:
        """Let an activity of the thread run and end; the workflow task that takes its result is still to come."""
        self.move(f"activity {self.name} {id}", f"end {self.name} {id}")

    def go_without(self, *ids: str, children: bool = True) -> None:
        """Whatever is due happens, except that the thread's activities with such ids, or its children, do not start."""
        for _ in range(MAX_MOVES):
            self.world.settle()
            held = [f"activity {self.name} {id}" for id in ids] + ([] if children else ["task t1/"])
            due = (move for move in self.world.due() if not move.key.startswith(tuple(held)))
            if (move := next(due, None)) is None:
                return
            make(self.result, move)
        raise AssertionError(f"there is no end: {self.result.moves[-10:]}")

    def go_through(self, beginning: str, ending: str = "") -> None:
        """Whatever is due happens, up to the first move that begins and ends so."""
        self._go(lambda key: key.startswith(beginning) and key.endswith(ending), includes=True)

    def go_until(self, beginning: str) -> None:
        """Whatever is due happens, up to before the first move that begins so."""
        self._go(lambda key: key.startswith(beginning), includes=False)

    def _go(self, is_last: Callable[[str], bool], *, includes: bool) -> None:
        for _ in range(MAX_MOVES):
            self.world.settle()
            move = next(self.world.due())
            if includes or not is_last(move.key):
                make(self.result, move)
            if is_last(move.key):
                return
        raise AssertionError(f"it never comes to that: {self.result.moves[-10:]}")

    def go_first_on(self, worker: str) -> None:
        """Whatever is due happens, also by time: workflow tasks and first attempts of activities on this worker."""
        world, taken = self.world, set[str]()
        for _ in range(MAX_MOVES):
            world.settle()
            due, alarm = list(world.due()), world.next_alarm()
            if not due and alarm is None:
                return
            if not due and alarm is not None:
                make(self.result, world.pass_time(alarm - world.server.now))
                continue
            here = [move for move in due if move.key.endswith(f" on {worker}") and move.key not in taken]
            elsewhere = [move for move in due if not move.key.endswith(f" on {worker}")]
            chosen = (here or elsewhere or due)[0]
            if chosen.kind == "activity":
                taken.add(chosen.key)
            make(self.result, chosen)
        raise AssertionError(f"there is no end: {self.result.moves[-10:]}")

    def move(self, *beginnings: str) -> None:
        """Make these moves, one after the other."""
        for beginning in beginnings:
            move = find(self.world, beginning) or self._possible(beginning)
            assert move is not None, f"{beginning!r} is not possible: {[move.key for move in self.world.due()]}"
            make(self.result, move)

    def _possible(self, beginning: str) -> Move | None:
        self.world.settle()
        moves = (*self.world.due(), *self.world.faults())
        return next((move for move in moves if move.key.startswith(beginning)), None)

    def reset_to(self, execution: Execution, completed: int) -> None:
        """Someone resets the thread to the workflow task that this event of an execution has completed."""
        self.world.people.disturbed.add(execution.workflow_id)
        self.world.server.reset(execution, completed)

    def end(self) -> None:
        """Everything comes to its end, and every check follows."""
        finish(self.result)


FAIL: Sequence[Call] = (("fail", {}),)
"""In place of an answer: the model fails for good, and the run ends in an error."""


@contextmanager
def scenario_of(
    agent: str,
    *answers: Sequence[Call],
    events: int = 2000,
    options: Options = CALM,
    mode: ThreadMode | None = None,
    helper: Sequence[Call] = (),
    settings: RunSettings = NO_SETTINGS,
    added: Mapping[str, Rule] = NO_RULES,
) -> Iterator[Scenario]:
    """The thread `t1` of this agent, whose model makes these calls, step by step, and then says that it is done.

    The model of its first sub-agent makes the calls of `helper` in its first step. The `settings` are of the request,
    and `added` has the rules that tools add, by call.
    """
    options = replace(options, mode=mode)
    budget = HistoryBudget(events=events)
    worker = replace(options.settings, budget=budget)

    def given(_people: people.People, name: str) -> RunSettings:
        return settings if name == "t1" else NO_SETTINGS

    def added_rules(*names: object) -> tuple[Rule, ...]:
        return tuple(rule for call, rule in added.items() if call in names)

    with (
        patch.object(people, "ROOT_AGENTS", (agent,)),
        patch.object(people, "THREADS", ("t1",)),
        patch.object(people.People, "settings", given),
        patch.object(workload.AnyModel, "complete", _scripted(answers, helper)),
        patch.object(workload, "added_rules", added_rules),
        patch.object(workload, "PENDING_WORK", 0),
        patch.object(workload, "ANSWERS_OF_HOOKS", 0),
        reading_simulated_histories(),
    ):
        yield Scenario("a scenario", replace(options, settings=worker))


def _scripted(answers: Sequence[Sequence[Call]], helper: Sequence[Call]) -> Any:
    left: dict[bool, list[Sequence[Call]]] = {False: list(answers), True: [helper]}

    async def complete(_model: workload.AnyModel, request: ModelRequest) -> ModelResponse:
        workload.check_request(request)
        if request.instructions == DEFAULT_SUMMARIZER_SYSTEM_PROMPT:
            return workload.answer("A summary.", ())
        scripted = left["/" in str(activity.info().workflow_id)]
        calls = scripted.pop(0) if scripted else ()
        if calls == FAIL:
            raise ProviderError(ProviderErrorKind.UNAUTHORIZED, "the key was revoked")
        text = "" if calls else "done"
        return workload.answer(text, tuple(ToolCall(id="", name=name, arguments=dict(given)) for name, given in calls))

    return complete
