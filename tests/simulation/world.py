"""One simulation: a server, workers, people, and everything that can happen next."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from temporalio.api.enums.v1 import WorkflowExecutionStatus

from tests.simulation import workers
from tests.simulation.core import ActivationFailed
from tests.simulation.execution import Execution
from tests.simulation.people import People
from tests.simulation.server import Server
from tests.simulation.service import Network, PendingQuery
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.workers import RunningActivity, Settings, SimulatedWorker
from tests.simulation.workload import OLDER_REGISTRY, REGISTRY, Outside, begin
from wakeful.contract import ids, names
from wakeful.contract.runs import ThreadMode

CONTINUED_AS_NEW = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW

MAX_FAILURES = 25
"""Workflow tasks of one execution that may fail in a row; then it counts as stuck."""


class Stuck(Exception):
    """A run that no worker can continue."""


@dataclass(frozen=True)
class Move:
    """One thing that can happen next. Its key says what, so that a schedule can be repeated without it."""

    key: str
    act: Callable[[], None]

    @property
    def kind(self) -> str:
        return self.key.partition(" ")[0]


@dataclass
class Options:
    settings: Settings = field(default_factory=Settings)
    workers: int = 2
    strict: bool = True
    lacks_local_tool: bool = False
    """The last of several workers was deployed without the local tool."""
    has_older_release: bool = False
    """The last of several workers runs the release before."""
    has_older_registry: bool = False
    """The last of several workers lacks agents, tools and a plugin."""
    haste: float = 0
    """How often people do the next thing at once, before anything else happens."""
    pace: float = 0.6
    """The share of moves that only let things take their course."""
    carried_bytes: int = 256_000
    """How much of a thread continue-as-new carries along; the rest is archived."""
    aim: str = ""
    """The stage that a thread has to be in before anything unusual happens; empty if that may be at once."""
    agent: str = ""
    """The agent of the first thread; empty if it is chosen at random."""
    mode: ThreadMode | None = None
    """The mode of every thread; None if it is chosen at random."""
    curious: bool = False
    """People look at threads that no worker has cached, while something happens to them."""
    governed: bool = False
    """Requests and messages set rules and budgets for the runs that they begin, and hooks and tools add rules."""
    away: bool = False
    """In the end, people answer questions only when nothing else can happen, not even by time."""


class World:
    """The state of one simulation. `moves` lists what can happen; the schedule chooses."""

    def __init__(self, seed: str, options: Options | None = None) -> None:
        self.options = options or Options()
        self.outside: Outside = begin(seed, self.options.aim, governed=self.options.governed)
        self.server = Server(seed)
        self.network = Network(self.server)
        self.loop = VirtualLoop(lambda: self.server.now)
        self.lives = 0
        self.workers = [self._new_worker(place) for place in range(self.options.workers)]
        self.people = People(seed, self.network, self.loop, self)
        self.counts: dict[str, int] = {}
        self.notes: list[str] = []
        """What a trace shows under the newest move."""

    def _new_worker(self, place: int) -> SimulatedWorker:
        self.lives += 1
        name, options = f"w{self.lives}", self.options
        is_older = options.has_older_registry and 0 < place == options.workers - 1
        registry = OLDER_REGISTRY if is_older else REGISTRY
        worker = SimulatedWorker(
            name, self.network, self.loop, options.settings, registry=registry, strict=options.strict
        )
        if options.lacks_local_tool and 0 < place == options.workers - 1:
            worker.local_activities = frozenset(
                {names.ACTIVITY_HOOKS, names.ACTIVITY_DESCRIBE_WORKER, names.ACTIVITY_FIND_STOPPING}
            )
        if options.has_older_release and 0 < place == options.workers - 1:
            worker.release = workers.older_release
        return worker

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    @property
    def alive(self) -> list[SimulatedWorker]:
        return [worker for worker in self.workers if worker.is_alive]

    def settle(self) -> None:
        """Let every coroutine run until it waits."""
        self.loop.run_until_idle()

    # -- the usual course ------------------------------------------------------------------------------------------

    def due(self) -> Iterator[Move]:
        """What would happen by itself, without faults."""
        for worker in self.alive:
            for handled in worker.handled.values():
                execution = handled.execution
                yield Move(f"report {_name(execution)}", partial(self._report, worker, execution))
            for running in worker.running.values():
                label = f"{_name(running.execution)} {running.activity.command.activity_id}"
                if running.has_ended:
                    yield Move(f"end {label}", partial(worker.report_activity, running))
                elif running.activity.is_cancelled:
                    yield Move(f"interrupt {label}", partial(_interrupt, running))
        for execution in self.server.open:
            yield from self._due_in(execution)
        for transfer in list(self.server.transfers):
            yield Move(f"transfer {transfer.key}", partial(self._transfer, transfer))
        for call in list(self.network.calls):
            yield Move(f"rpc {call.key}", partial(self.let_through, call))
        for query in list(self.network.queries):
            yield from self._queries(query)

    def _due_in(self, execution: Execution) -> Iterator[Move]:
        name, task = _name(execution), execution.task
        if task is not None and not task.is_started:
            for worker in self._pollers(execution):
                yield Move(f"task {name} on {worker.name}", partial(self._take, worker, execution))
        elif task is not None and not any(execution.run_id in worker.handled for worker in self.alive):
            yield Move(f"task-timeout {name}", partial(self._lose, execution))
        for activity in list(execution.activities.values()):
            label = f"{name} {activity.command.activity_id}"
            if activity.worker is None:
                if activity.is_cancelled:
                    cancel = partial(self.server.cancel_activity, execution, activity)
                    yield Move(f"cancelled {label}", cancel)
                elif activity.not_before <= self.server.now:
                    for worker in self.alive:
                        begin_activity = partial(worker.take_activity, execution, activity)
                        yield Move(f"activity {label} on {worker.name}", begin_activity)
            elif not any((execution.run_id, activity.scheduled_id) in worker.running for worker in self.alive):
                yield Move(f"heartbeat-timeout {label}", partial(self.server.time_out_activity, execution, activity))
        for timer, at in list(execution.timers.items()):
            if at <= self.server.now:
                yield Move(f"timer {name} {timer}", partial(self.server.fire, execution, timer))

    def _pollers(self, execution: Execution) -> list[SimulatedWorker]:
        """The workers that may get the task: the one with the run in its cache, as long as it lives."""
        sticky = [worker for worker in self.alive if worker.name == execution.sticky]
        return sticky or self.alive

    def _queries(self, query: PendingQuery) -> Iterator[Move]:
        execution = query.execution
        if query.answer.done():
            self.network.queries.remove(query)
        elif execution.task is not None and execution.task.is_started:
            return
        elif query.with_task and execution.task is not None:
            return  # it is answered along with the task
        elif execution.previous_started or not execution.is_open:
            for worker in self._pollers(execution):
                # Core lets a worker without the run take up a lost task early, at the time of that task, and a workflow
                # cannot see that it does. It is reported upstream; until then it would hide what is ours.
                if execution.run_id in worker.runs or not execution.is_open or not execution.has_lost_task:
                    yield Move(f"query {query.key} on {worker.name}", partial(self._query, worker, query))

    # -- faults ----------------------------------------------------------------------------------------------------

    def faults(self) -> Iterator[Move]:
        """What a hostile world adds."""
        for worker in self.alive:
            yield Move(f"kill {worker.name}", partial(self._kill, worker))
            yield Move(f"sweep {worker.name}", worker.sweep)
            for core in worker.runs.values():
                execution = self.server.find(core.workflow_id, core.run_id)
                if execution is not None and core.run_id not in worker.handled:
                    yield Move(f"evict {_name(execution)} on {worker.name}", partial(worker.evict, execution))
        for execution in self.server.open:
            name, task = _name(execution), execution.task
            if task is not None and task.is_started:
                yield Move(f"task-lost {name}", partial(self._lose, execution))
            elif execution.sticky is not None:
                yield Move(f"unstick {name}", partial(setattr, execution, "sticky", None))
            for activity in list(execution.activities.values()):
                if activity.worker is not None:
                    label = f"{name} {activity.command.activity_id}"
                    time_out = partial(self.server.time_out_activity, execution, activity)
                    yield Move(f"activity-lost {label}", time_out)
        for execution in self.server.executions:
            if execution.status == CONTINUED_AS_NEW and execution.run_id not in self.server.deleted:
                yield Move(f"delete {_name(execution)}", partial(self.server.delete, execution))
        yield Move("lag visibility", partial(setattr, self.server, "is_visibility_lagging", True))
        yield Move("slow network", partial(setattr, self.network, "is_slow", True))
        yield Move("fast network", partial(setattr, self.network, "is_slow", False))

    def pass_time(self, milliseconds: int) -> Move:
        return Move(f"wait {milliseconds}", partial(self._wait, milliseconds))

    def next_alarm(self) -> int | None:
        """When something becomes due by time alone."""
        timers = [at for each in self.server.open if not self._only_checks(each) for at in each.timers.values()]
        retries = [
            activity.not_before
            for execution in self.server.open
            for activity in execution.activities.values()
            if activity.worker is None
        ]
        sleeper = self.loop.next_timer if self._has_sleepers() else None
        asleep = [] if sleeper is None else [sleeper]
        later = [at for at in (*timers, *retries, *asleep) if at > self.server.now]
        return min(later, default=None)

    def _only_checks(self, execution: Execution) -> bool:
        """Whether it is the archive of an open thread, which looks for its thread every month, and finds it."""
        thread = self.server.current.get(ids.archived_thread_id(execution.workflow_id))
        return execution.workflow_type == names.WORKFLOW_ARCHIVE and thread is not None and thread.is_open

    def _has_sleepers(self) -> bool:
        """Whether a task waits for the clock, apart from watchers, which always do."""
        running = (running.task for worker in self.alive for running in worker.running.values())
        sweeping = (worker.sweeping for worker in self.alive if worker.sweeping is not None)
        asked = (asked.task for asked in self.people.asked)
        return any(not task.done() for task in (*running, *sweeping, *asked))

    def is_in_no_cache(self, execution: Execution) -> bool:
        """Whether no worker has the run as it is now; some may have it as it was."""
        cached = (core for worker in self.alive if (core := worker.runs.get(execution.run_id)) is not None)
        return bool(execution.previous_started) and all(core.is_behind(execution.previous_started) for core in cached)

    def shut_down(self) -> None:
        """End every coroutine, so that none is left to the garbage collector."""
        self.network.is_slow = False
        for worker in self.alive:
            worker.kill()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.settle()
        self.loop.close()

    # -- what moves do ---------------------------------------------------------------------------------------------

    def _take(self, worker: SimulatedWorker, execution: Execution) -> None:
        try:
            worker.take_task(execution)
        except ActivationFailed as error:
            self.notes.append(f"the workflow task fails: {error}")
            self.count(f"task failed: {str(error)[:60]}")
            worker.evict(execution)
            execution.lose_task(timed_out=False)
            execution.failures += 1
            if execution.failures > MAX_FAILURES:
                raise Stuck(f"{_name(execution)}: {error}") from error

    def _report(self, worker: SimulatedWorker, execution: Execution) -> None:
        worker.report_task(execution)

    def _lose(self, execution: Execution) -> None:
        for worker in self.workers:
            if execution.run_id in worker.handled:
                del worker.handled[execution.run_id]
                worker.evict(execution)
        execution.lose_task(timed_out=True)

    def _transfer(self, transfer: Any) -> None:
        self.server.transfers.remove(transfer)
        transfer.deliver()

    def let_through(self, call: Any) -> None:
        self.network.calls.remove(call)
        if not call.reached.done():
            call.reached.set_result(None)

    def _query(self, worker: SimulatedWorker, query: PendingQuery) -> None:
        self.network.queries.remove(query)
        is_cold = query.execution.run_id not in worker.runs
        self.count("cold query" if is_cold else "warm query")
        worker.answer(query)

    def _kill(self, worker: SimulatedWorker) -> None:
        worker.kill()
        place = self.workers.index(worker)
        self.workers[place] = self._new_worker(place)

    def _wait(self, milliseconds: int) -> None:
        self.server.now += milliseconds


def _interrupt(running: RunningActivity) -> None:
    """A heartbeat delivers the cancellation to the activity."""
    running.environment.cancel()


def _name(execution: Execution) -> str:
    return f"{execution.workflow_id}@{execution.run_id[:4]}"
