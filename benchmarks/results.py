"""The results: every figure that was measured, as one JSON document, and the statistics over them."""

import os
import platform
import statistics
from collections.abc import Sequence
from importlib.metadata import version

from pydantic import BaseModel

from benchmarks.workload import BARE


class Series(BaseModel):
    """One quantity: per side, one sample per repeat. Samples of one repeat were taken directly after each other."""

    label: str
    unit: str
    samples: dict[str, list[float]]
    more_is_better: bool = False

    def median(self, side: str) -> float | None:
        taken = self.samples.get(side)
        return statistics.median(taken) if taken else None

    def ratios(self, side: str) -> list[float]:
        """Each sample divided by the baseline's sample of the same repeat, so that a slow minute affects both."""
        pairs = zip(self.samples.get(side, ()), self.samples.get(BARE, ()), strict=False)
        return [sample / bare for sample, bare in pairs if bare]


class HistorySize(BaseModel):
    """The history of one run, over all its executions and the archives of its thread."""

    side: str
    steps: int
    size: int
    events: int
    bytes: int
    executions: int


class AnswerHistory(BaseModel):
    """The history of a run with one long answer, without times."""

    agent: str
    tokens: int
    events: int
    bytes: int


class WatchedRun(BaseModel):
    """The history of a run with watchers, without times, and its cost from its decision on."""

    side: str
    watchers: int
    tokens: int
    events: int
    bytes: int
    failed_tasks: int = 0
    """Workflow tasks that failed or timed out: each adds events that are not due to watchers."""
    seconds: float | None = None
    worker_cpu: float | None = None
    lag_p50: float | None = None
    """Milliseconds, over all tokens and all watchers."""
    lag_p95: float | None = None


class Reading(BaseModel):
    """Milliseconds per query of a closed run, one of each per repeat."""

    steps: int
    queried: list[float] = []
    """A worker answered."""
    first_read: list[float] = []
    """A new reader replayed the history."""
    later_read: list[float] = []
    """The same reader had the run in memory."""
    command_cpu: dict[str, list[float]] = {}
    """CPU seconds of a whole reading command in a process of its own, by its name."""

    def multiples(self, samples: Sequence[float]) -> list[float]:
        """Each sample divided by the worker's of the same repeat."""
        return [sample / queried for sample, queried in zip(samples, self.queried, strict=True)]


class Rebuild(BaseModel):
    """Milliseconds that a worker with an empty cache takes to read a conversation, one of each per repeat."""

    steps: int
    kilobytes: int
    """Of one tool result."""
    messages: int
    executions: int
    segments: int
    histories: list[float] = []
    """It read the histories of all executions."""
    archives: list[float] = []
    """It read the newest execution's history and the archives."""

    @property
    def multiples(self) -> list[float]:
        """Archives divided by histories, of the same repeat."""
        return [archives / histories for archives, histories in zip(self.archives, self.histories, strict=True)]


class Simulation(BaseModel):
    """How fast the simulation runs and replays schedules, per second, one of each per repeat."""

    schedules: int
    steps: int
    run: list[float] = []
    """Schedules, with all their checks."""
    real: list[float] = []
    """Activations in replays by the SDK's real core."""
    model: list[float] = []
    """Activations in replays of the same histories by its model."""

    def add(self, run: float, real: float, model: float) -> None:
        for samples, value in ((self.run, run), (self.real, real), (self.model, model)):
            samples.append(round(value, 4))

    @property
    def multiples(self) -> list[float]:
        """The model's rate divided by the real core's of the same repeat."""
        return [model / real for model, real in zip(self.model, self.real, strict=True)]


class TracingCost(BaseModel):
    """Milliseconds of a step, and of its CPU in the worker, with tracing on and off, one of each per repeat."""

    steps: int
    off: list[float] = []
    on: list[float] = []
    off_cpu: list[float] = []
    on_cpu: list[float] = []

    @property
    def multiples(self) -> list[float]:
        """The time with tracing divided by the time without it, of the same repeat."""
        return [on / off for on, off in zip(self.on, self.off, strict=True)]

    @property
    def cpu_multiples(self) -> list[float]:
        return [on / off for on, off in zip(self.on_cpu, self.off_cpu, strict=True) if off]


class IdleFleet(BaseModel):
    """What workers with nothing to do call, besides polling for tasks."""

    workers: int
    children: int
    """Sub-agents that are asleep."""
    seconds: float
    calls: dict[str, int]

    @property
    def rate(self) -> float:
        """Calls per second of the whole fleet."""
        return sum(self.calls.values()) / self.seconds


class Recovery(BaseModel):
    """Seconds from a decision to the end of its run, whose worker was killed before."""

    sleeping: list[float] = []
    in_progress: list[float] = []
    """Of runs of which the killed worker was given a task."""


class Startup(BaseModel):
    """The CPU time that a command uses until it starts its work. Other load on the machine can only add to it."""

    command: str
    seconds: list[float]

    @property
    def best(self) -> float:
        return min(self.seconds)


class Machine(BaseModel):
    python: str
    temporalio: str
    system: str
    cores: int
    busy_elsewhere: float | None = None
    """Cores that other processes used during the measurements."""
    bare_sandboxed: bool


class Results(BaseModel):
    """Everything that was measured; empty for measurements that `--only` excludes."""

    machine: Machine
    series: dict[str, Series] = {}
    histories: list[HistorySize] = []
    answers: list[AnswerHistory] = []
    watched: list[WatchedRun] = []
    startups: list[Startup] = []
    reading: Reading | None = None
    rebuild: Rebuild | None = None
    simulation: Simulation | None = None
    tracing: TracingCost | None = None
    idle_fleets: list[IdleFleet] = []
    recovery: Recovery | None = None

    def history(self, side: str, steps: int, size: int) -> HistorySize | None:
        key = (side, steps, size)
        return next((h for h in self.histories if (h.side, h.steps, h.size) == key), None)

    def points(self, side: str, size: int) -> list[HistorySize]:
        return sorted((h for h in self.histories if (h.side, h.size) == (side, size)), key=lambda h: h.steps)

    def answer(self, agent: str) -> AnswerHistory | None:
        return next((answer for answer in self.answers if answer.agent == agent), None)

    def startup(self, command: str) -> Startup | None:
        return next((startup for startup in self.startups if startup.command == command), None)

    def watched_runs(self, side: str) -> dict[int, list[WatchedRun]]:
        """Runs by their number of watchers, fewest first, each in the order in which they were measured."""
        runs: dict[int, list[WatchedRun]] = {}
        for run in sorted((run for run in self.watched if run.side == side), key=lambda run: run.watchers):
            runs.setdefault(run.watchers, []).append(run)
        return runs


class Line(BaseModel):
    slope: float
    intercept: float
    r2: float


def line(points: Sequence[tuple[float, float]]) -> Line:
    """The least-squares line and its coefficient of determination."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    slope, intercept = statistics.linear_regression(xs, ys)
    return Line(slope=slope, intercept=intercept, r2=statistics.correlation(xs, ys) ** 2)


def percentile(samples: Sequence[float], percent: int) -> float:
    if len(samples) == 1:
        return samples[0]
    return statistics.quantiles(samples, n=100, method="inclusive")[percent - 1]


def this_machine(*, bare_sandboxed: bool) -> Machine:
    return Machine(
        python=platform.python_version(),
        temporalio=version("temporalio"),
        system=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count() or 1,
        bare_sandboxed=bare_sandboxed,
    )
