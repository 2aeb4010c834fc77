"""Schedules: what happens, in which order. Random from a seed, or given as the keys of moves."""

import re
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from temporalio.api.enums.v1 import EventType

from tests.simulation.checks import (
    check,
    check_alarms,
    check_closed,
    check_result,
    check_swept,
    check_transcript,
    check_watchers,
    orphans,
)
from tests.simulation.execution import Execution
from tests.simulation.people import THREADS, VERBS
from tests.simulation.reader import reading_simulated_histories
from tests.simulation.sizes import carrying
from tests.simulation.workers import Settings
from tests.simulation.world import Move, Options, Stuck, World
from wakeful.client.client import Client
from wakeful.connection import SEARCH_ATTRIBUTES
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import WakefulError
from wakeful.contract.runs import RunResult, ThreadMode
from wakeful.loop.machine.stages import Idle

T = TypeVar("T")

STEPS = 100

CALM_MOVES = 12_000
"""After the faults, everything has to come to an end within so many moves."""

WATCHER_POLLS = 40
"""After everything is closed, a watcher has to notice it within so many polls."""

SWEEPS = 3
"""Rounds of every worker: an orphan has to be unknown to its parent in two of them."""

SWEEP_INTERVAL, ROUNDS = 60_000, 2
"""Workers sweep every minute, so that rounds come before what is due much later."""

MAX_CLOSES = 3
"""Closing a thread may wake another one, for example with mail."""

PACES = (0.6, 0.6, 0.75, 0.9)
"""The share of moves that only let things take their course; if it is high, faults meet deep trees and late steps."""

PEOPLE, DRASTIC, FAULTS = 0.48, 0.05, 0.34
"""The shares of the other moves; what is left lets time pass."""

WAITS = (10, 200, 1000, 2500, 6000, 30_000)

AIMED = 0.7
"""The share of schedules that aim at a stage: the usual course leads to it, and only then do faults begin."""

AIMS: dict[str, tuple[str, tuple[int, ...]]] = {
    "idle": ("", (12, 30, 2000)),
    "resolving": ("", (1, 30, 2000)),
    "running_hooks": ("lead", (1,)),
    "inferring": ("", (1, 30, 2000)),
    "calling_tools": ("", (1, 30, 2000)),
    "handing_off": ("lead", (1, 2000)),
    "awaiting_decisions": ("", (1, 30, 2000)),
    "awaiting_tasks": ("lead", (1, 30, 2000)),
    "awaiting_budget": ("frugal", (1, 30, 2000)),
    "cancelling": ("lead", (30, 2000)),
    "done": ("", (30, 2000)),
}
"""The stages to aim at, each with an agent that gets there (empty: any), and history budgets: a stage that a local
activity ends stays only between two executions."""

ANY_BUDGET = (1, 12, 30, 60, 2000)

MAX_APPROACH = 150
"""The moves that the usual course may take to the stage."""

HELD = 12
"""So many moves long, what the aimed thread waits for does not happen."""

HELD_PACE = 0.35

GOVERNED = 0.4
"""The share of schedules in which requests and messages set rules and budgets."""

CURIOUS, EVICTIONS = 0.3, 0.15
"""The share of schedules in which people look at uncached threads, and how often such a thread is evicted."""


@dataclass
class Result:
    """One schedule, and what came of it."""

    seed: str
    world: World
    moves: list[str] = field(default_factory=list)
    wild: int = 0
    """How many of the moves came before the calm end."""
    error: Exception | None = None
    trace: list[str] | None = None
    """Each move with the events that it caused, if asked for."""

    @property
    def problem(self) -> str:
        """The kind of the error: the same for every schedule that fails for the same reason."""
        if self.error is None:
            return ""
        return f"{type(self.error).__name__}: {re.sub(r'[0-9a-f]*[0-9][0-9a-f]*', '#', str(self.error))[:90]}"


def _attributes(share: float, random: Random) -> tuple[str, ...]:
    """The search attributes that the namespace has: often all, sometimes a few, often none."""
    few = [name for name in sorted(SEARCH_ATTRIBUTES) if random.random() < 0.5]
    return tuple(sorted(SEARCH_ATTRIBUTES) if share < 0.4 else few if share < 0.5 else ())


def options_of(seed: str) -> Options:
    """Workers differ: tight budgets, small caches, no search attributes."""
    random = Random(f"{seed}/options")
    aim = random.choice(list(AIMS)) if random.random() < AIMED else ""
    agent, budgets = AIMS[aim] if aim else ("", ANY_BUDGET)
    budget = HistoryBudget(events=random.choice(budgets))
    attributes = _attributes(random.random(), Random(f"{seed}/attributes"))
    settings = Settings(budget=budget, search_attributes=attributes, max_cached_bytes=random.choice([0, 2**20]))
    return Options(
        settings=settings,
        workers=random.choice([1, 2, 3]),
        lacks_local_tool=random.random() < 0.3,
        haste=random.choice([0, 0.5]),
        pace=random.choice(PACES),
        carried_bytes=random.choice([500, 3000, 256_000]),
        aim=aim,
        agent=agent,
        mode=ThreadMode.THREAD if aim == Idle.kind else None,
        away=random.random() < 0.3,
        curious=random.random() < CURIOUS,
        has_older_release=random.random() < 0.2,
        has_older_registry=random.random() < 0.3,
        governed=Random(f"{seed}/governed").random() < GOVERNED,
    )


def run(seed: str, steps: int = STEPS, *, options: Options | None = None) -> Result:
    """A random schedule, then a calm end, then every check."""
    random, options = Random(f"{seed}/schedule"), options or options_of(seed)
    with reading_simulated_histories(), carrying(options.carried_bytes):
        result = Result(seed, World(seed, options))
        world = result.world
        with _catching(result):
            if world.options.aim:
                approach(result, random)
            for number in range(steps):
                held = world.people.target if number < HELD else ""
                move = _choose(world, random, after=result.moves[-1] if result.moves else "", held=held)
                if move is None:
                    break
                make(result, move)
            finish(result)
    return result


def approach(result: Result, random: Random) -> None:
    """Let things take their course until a thread is in the stage that the schedule aims at."""
    world = result.world
    people, aim = world.people, world.options.aim
    wanted = "calling_tools" if aim == "cancelling" else aim
    for _ in range(MAX_APPROACH):
        world.settle()
        if found := [each.workflow_id for each in world.server.open if people.stage_of(each) == wanted]:
            people.target = random.choice(found)
            if aim == "cancelling":
                make(result, _client_move(world, f"cancel {people.target}"))
            return
        make(result, _usual_move(world, random))


def _usual_move(world: World, random: Random) -> Move:
    """What happens without faults: people decide what they are asked, and send a message when nothing else happens."""
    if due := list(world.due()):
        first = [move for move in due if f" {THREADS[0]}" in move.key]
        return random.choice(first if first and random.random() < 0.7 else due)
    if questions := world.people.questions():
        thread_id, call_id, _ = random.choice(questions)
        return _client_move(world, f"decide {thread_id} {call_id} resume")
    if (alarm := world.next_alarm()) is not None:
        return world.pass_time(alarm - world.server.now)
    world.people.number += 1
    return _client_move(world, f"send {random.choice(THREADS)} enqueue {world.people.number}")


def repeat(seed: str, keys: Sequence[str], *, options: Options | None = None, traced: bool = False) -> Result:
    """The same moves, as far as they are possible."""
    options = options or options_of(seed)
    with reading_simulated_histories(), carrying(options.carried_bytes):
        result = Result(seed, World(seed, options), trace=[] if traced else None)
        with _catching(result):
            for key in keys:
                move = find(result.world, key)
                if move is not None:
                    make(result, move)
            finish(result)
    return result


@contextmanager
def _catching(result: Result) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        result.error = error
    finally:
        result.world.shut_down()


def finish(result: Result) -> None:
    result.wild = len(result.moves)
    calm_down(result)
    seen = check(result.world)
    for thread_id in THREADS:
        observed = None if thread_id in result.world.people.disturbed else seen.get(thread_id)
        if observed is not None and observed.thread is not None and not observed.is_restoring:
            check_transcript(thread_id, observed, ask(result, result.world.people.client.transcript(thread_id)))
    close_all(result)
    for thread_id in THREADS:
        if (closed := result.world.server.current.get(thread_id)) is not None:
            check_result(thread_id, closed, ask(result, _result(result.world.people.client, thread_id)))
    _let_watchers_finish(result)
    check_watchers(result.world)


async def _result(client: Client, thread_id: str) -> RunResult | WakefulError:
    try:
        return await client.result(thread_id)
    except WakefulError as error:
        return error


def _let_watchers_finish(result: Result) -> None:
    world = result.world
    for _ in range(WATCHER_POLLS):
        if all(watcher.done() for watcher in world.people.watching):
            return
        world.server.now = max(world.server.now, world.loop.next_timer or 0)
        calm_down(result)


def ask(result: Result, question: Coroutine[Any, Any, T]) -> T:
    """What a client is answered while nothing else happens."""
    world = result.world
    asking = world.loop.create_task(question)
    for _ in range(CALM_MOVES):
        world.settle()
        if asking.done():
            return asking.result()
        if (move := next(world.due(), None)) is not None:
            make(result, move)
        elif (alarm := world.next_alarm()) is not None:
            make(result, world.pass_time(alarm - world.server.now))
    raise Stuck("a question is never answered")


def make(result: Result, move: Move) -> None:
    world = result.world
    result.moves.append(move.key)
    world.notes.clear()
    world.count(move.kind)
    before = {execution.run_id: len(execution.history) for execution in world.server.executions}
    try:
        move.act()
        world.settle()
    finally:
        if result.trace is not None:
            result.trace.append("".join((move.key, *map("\n      {}".format, _consequences(world, before)))))


def _consequences(world: World, before: dict[str, int]) -> Iterator[str]:
    """What a move has changed: new events, and what the world noted."""
    for execution in world.server.executions:
        new = execution.history[before.get(execution.run_id, 0) :]
        if new:
            names = ", ".join(EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower() for event in new)
            yield f"{execution.workflow_id}@{execution.run_id[:4]} from event {new[0].event_id}: {names}"
    yield from world.notes


def _choose(world: World, random: Random, *, after: str, held: str = "") -> Move | None:
    """The next move; nothing that thread `held` waits for ends."""
    world.settle()
    if world.options.curious and (move := _out_of_curiosity(world, random, after, held)) is not None:
        return move
    if _invites_haste(after) and world.options.haste and random.random() < world.options.haste:
        return _client_move(world, random.choice(world.people.likely_actions(random)))
    pace = HELD_PACE if held else world.options.pace
    if random.random() < pace and (due := [move for move in world.due() if not _ends_work(move, held)]):
        return random.choice(due)
    roll = random.random()
    if roll < PEOPLE:
        return _client_move(world, random.choice(world.people.likely_actions(random)))
    if roll < PEOPLE + DRASTIC:
        return _client_move(world, random.choice(world.people.drastic_actions(random)))
    if roll < PEOPLE + DRASTIC + FAULTS and (faults := list(world.faults())):
        return random.choice(faults)
    alarm = world.next_alarm()
    if alarm is not None and random.random() < 0.5:
        return world.pass_time(alarm - world.server.now)
    return world.pass_time(random.choice(WAITS))


def _out_of_curiosity(world: World, random: Random, after: str, held: str) -> Move | None:
    """A query of an uncached thread, an event after it, and the query handed to a worker before the workflow task."""
    kind, thread_id = after.partition(" ")[0], after.split(" ")[1].partition("@")[0] if " " in after else ""
    if kind == "evict":
        return _client_move(world, f"look-at {thread_id}")
    if kind == "look-at":
        actions = [action for action in world.people.likely_actions(random) if f" {thread_id} " in action]
        return _client_move(world, random.choice(actions)) if actions else None
    if kind in VERBS:
        queries = (move for move in world.due() if move.key.startswith(f"query {thread_id} "))
        return next(queries, None)
    if held and random.random() < EVICTIONS:
        evictions = (move for move in world.faults() if move.key.startswith(f"evict {held}@"))
        return next(evictions, None)
    return None


def _ends_work(move: Move, thread_id: str) -> bool:
    return bool(thread_id) and move.key.startswith((f"activity {thread_id}@", f"end {thread_id}@"))


def _invites_haste(key: str) -> bool:
    """Most defects need several things at once on a run that no worker has in its cache."""
    kind = key.partition(" ")[0]
    return kind in VERBS or kind in ("kill", "evict", "timer") or kind.startswith("read-")


def _client_move(world: World, key: str) -> Move:
    return Move(key, lambda: _perform(world, key))


def _perform(world: World, key: str) -> None:
    world.people.perform(key)


def find(world: World, key: str) -> Move | None:
    """The move with this key, if it is possible now."""
    world.settle()
    kind = key.partition(" ")[0]
    if kind == "wait":
        return world.pass_time(int(key.split(" ")[1]))
    if kind in VERBS or kind.startswith("read-"):
        return _client_move(world, key)
    return next((move for move in (*world.due(), *world.faults()) if move.key == key), None)


def calm_down(result: Result) -> None:
    """No more faults: everything that is due happens, people decide what they are asked, and workers sweep."""
    world = result.world
    world.network.is_slow = False
    world.server.is_visibility_lagging = False
    for call in list(world.network.calls):
        world.let_through(call)
    sweeps, rounds, left = 0, 0, _begin_sweep(world)
    for _ in range(CALM_MOVES):
        world.settle()
        world.server.catch_up_visibility()
        if left and all(worker.is_idle for worker in world.alive):
            check_swept(world, left)
            left = []
        if (move := next(world.due(), None)) is not None:
            make(result, move)
            continue
        check_alarms(world)
        questions = world.people.questions()
        is_asked = bool(questions) and not (world.options.away and world.next_alarm())
        if is_asked:
            thread_id, call_id, _ = questions[0]
            make(result, _client_move(world, f"decide {thread_id} {call_id} finally{len(result.moves)}"))
        elif held := world.people.held_open():
            make(result, _client_move(world, f"send {held[0]} steer {10 * (1_000 + len(result.moves))}"))
        elif forgotten := [execution for execution in world.server.open if world.is_in_no_cache(execution)]:
            make(result, _client_move(world, f"look-at {forgotten[0].workflow_id}"))
        elif (alarm := world.next_alarm()) is not None:
            if rounds < ROUNDS and alarm - world.server.now > SWEEP_INTERVAL:
                rounds += 1
                _sweep(world)
            else:
                rounds = 0
                make(result, world.pass_time(alarm - world.server.now))
        elif sweeps < SWEEPS and world.server.open:
            sweeps += 1
            _sweep(world)
        else:
            return
    raise Stuck(f"there is no end: {result.moves[-20:]}")


def _begin_sweep(world: World) -> list[Execution]:
    """Every worker begins a round; the orphans that it has to cancel, if they do not end by themselves before."""
    world.settle()
    world.server.catch_up_visibility()
    found = orphans(world)
    if found:
        _sweep(world)
    return found


def _sweep(world: World) -> None:
    for worker in world.alive:
        worker.sweep()


def close_all(result: Result) -> None:
    """Close every thread that has no parent: its descendants have to end with it."""
    world = result.world
    for _ in range(MAX_CLOSES):
        threads = [execution for execution in world.server.open if execution.workflow_type != names.WORKFLOW_ARCHIVE]
        roots = [execution for execution in threads if execution.parent is None]
        if not roots:
            break
        for execution in roots:
            make(result, _client_move(world, f"close {execution.workflow_id}"))
        calm_down(result)
    check_closed(world)
