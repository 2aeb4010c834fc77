"""What the schedules cover: which facts a thread was given in which of its stages, and after which faults.

`python -m tests.simulation.coverage --schedules 500` prints the table of `docs/testing.md`.
"""

import argparse
import logging
import os
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import get_args
from unittest.mock import patch

from temporalio import workflow

from tests.simulation.cases import CASES
from tests.simulation.impossible import impossible
from tests.simulation.rare import RARE
from tests.simulation.schedule import STEPS, run
from tests.simulation.world import World
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.facts import Fact
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.machine.transitions import STAGES

FACTS: tuple[str, ...] = tuple(kind.__name__ for kind in get_args(Fact))

IMPOSSIBLE = impossible(FACTS)
"""Why a fact cannot be given to a thread in a stage; every other cell is to be filled."""

FAULTS = {
    "kill": "a worker was killed",
    "task-lost": "a workflow task timed out",
    "activity-lost": "an activity timed out",
    "evict": "a run was evicted",
    "unstick": "a sticky queue was lost",
    "cold query": "a query on an uncached run",
    "slow": "a slow network",
    "lag": "lagging visibility",
    "sweep": "a sweep",
    "delete": "a closed execution was deleted",
}
"""The kinds of faults, as `World.count` names them."""

CALM = "calm"

RECENT = 10
"""A fault counts as the circumstance of a fact for so many moves; then it is calm."""

BATCH = 10

Cell = tuple[str, str]
"""A stage, and a fact that a thread was given in it."""


@dataclass
class Coverage:
    """How often each fact was taken in each stage, by the newest fault before it."""

    taken: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Stage, fact, fault."""
    schedules: int = 0
    directed: int = 0
    """Directed schedules: the named cases and the rare facts."""

    def of(self, stage: str, fact: str) -> int:
        return sum(self.taken[stage, fact, fault] for fault in (CALM, *FAULTS))

    def faults_of(self, stage: str, fact: str) -> list[str]:
        return [fault for fault in (CALM, *FAULTS) if self.taken[stage, fact, fault]]

    @property
    def cells(self) -> set[Cell]:
        return {(stage, fact) for stage, fact, _ in self.taken}

    @property
    def empty(self) -> list[Cell]:
        """The cells that could be filled, and are not."""
        every = [(stage, fact) for stage in STAGES for fact in FACTS]
        return [cell for cell in every if cell not in self.cells and cell not in IMPOSSIBLE]

    @property
    def contradictions(self) -> list[Cell]:
        """The cells that were seen although `IMPOSSIBLE` has them."""
        return sorted(self.cells & IMPOSSIBLE.keys())

    def add(self, other: "Coverage") -> None:
        self.taken.update(other.taken)
        self.schedules += other.schedules
        self.directed += other.directed


@contextmanager
def collecting(coverage: Coverage) -> Iterator[None]:
    """Note every fact that a thread is given, the first time that a worker handles it: replays repeat it."""
    recent: deque[str] = deque(maxlen=RECENT)
    count = World.count

    def noting_moves(world: World, what: str) -> None:
        recent.append(what)
        count(world, what)

    def noting_facts(thread: Thread, fact: Fact, *, now: int) -> Advance:
        if not workflow.unsafe.is_replaying():
            newest = next((what for what in reversed(recent) if what in FAULTS), CALM)
            coverage.taken[thread.stage.kind, type(fact).__name__, newest] += 1
        return advance(thread, fact, now=now)

    with (
        patch.object(World, "count", noting_moves),
        patch("wakeful_workflows.agent_run.advance", noting_facts),
    ):
        yield


def cover(seeds: Iterable[str], steps: int = STEPS) -> Coverage:
    """Run schedules, and collect what they cover."""
    coverage = Coverage()
    for seed in seeds:
        with collecting(coverage):
            run(seed, steps)
        coverage.schedules += 1
    return coverage


def cover_directed() -> Coverage:
    """Play the directed schedules, and collect what they cover."""
    coverage = Coverage()
    for play in (*(case.play for case in CASES), *(rare.play for rare in RARE)):
        with collecting(coverage):
            play()
        coverage.directed += 1
    return coverage


def cover_many(schedules: int, steps: int, jobs: int) -> Coverage:
    seeds = [str(seed) for seed in range(schedules)]
    total = Coverage()
    with ProcessPoolExecutor(jobs) as pool:
        batches = [seeds[start : start + BATCH] for start in range(0, schedules, BATCH)]
        for coverage in pool.map(_cover_quietly, batches, [steps] * len(batches)):
            total.add(coverage)
    return total


def _cover_quietly(seeds: Sequence[str], steps: int) -> Coverage:
    """In a process of its own: workflows log every fault."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    return cover(seeds, steps)


def _cover_directed_quietly() -> Coverage:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    return cover_directed()


def report(coverage: Coverage) -> str:
    """The tables, as Markdown."""
    stages = [stage for stage in STAGES if any(cell not in IMPOSSIBLE for cell in _column(stage))]
    lines = [
        f"{coverage.schedules:,} schedules and {coverage.directed} directed ones. Each cell: how often a thread in "
        f"this stage was given this fact, and after how many of the {len(FAULTS) + 1} circumstances; "
        "`-` cannot happen, `0` has not happened.",
        "",
        *_table(["", *(f"`{stage}`" for stage in stages)], [_row(coverage, fact, stages) for fact in FACTS]),
        "",
        "By the newest fault in the last ten moves:",
        "",
        *_table(["", CALM, *FAULTS], [_fault_row(coverage, fact) for fact in FACTS]),
        "",
        f"To be filled: {len(coverage.empty)} cells.",
        "",
        *(f"- `{stage}`: {', '.join(facts)}" for stage, facts in _by_stage(coverage.empty)),
    ]
    if coverage.contradictions:
        lines += ["", f"Seen, although `IMPOSSIBLE` has them: {coverage.contradictions}"]
    return "\n".join(lines)


def _row(coverage: Coverage, fact: str, stages: Sequence[str]) -> list[str]:
    return [f"`{fact}`", *(_shown(coverage, stage, fact) for stage in stages)]


def _shown(coverage: Coverage, stage: str, fact: str) -> str:
    if (times := coverage.of(stage, fact)) == 0:
        return "-" if (stage, fact) in IMPOSSIBLE else "**0**"
    return f"{times:,} ({len(coverage.faults_of(stage, fact))})"


def _fault_row(coverage: Coverage, fact: str) -> list[str]:
    totals = [sum(coverage.taken[stage, fact, fault] for stage in STAGES) for fault in (CALM, *FAULTS)]
    return [f"`{fact}`", *(f"{total:,}" for total in totals)]


def _column(stage: str) -> list[Cell]:
    return [(stage, fact) for fact in FACTS]


def _by_stage(cells: Iterable[Cell]) -> Iterator[tuple[str, list[str]]]:
    for stage in STAGES:
        if facts := [fact for where, fact in cells if where == stage]:
            yield stage, facts


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.coverage", description=__doc__)
    parser.add_argument("--schedules", type=int, default=300, help="how many schedules to run (default: 300)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"moves before the calm end (default: {STEPS})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    options = parser.parse_args()
    coverage = cover_many(options.schedules, options.steps, options.jobs)
    coverage.add(_cover_directed_quietly())
    print(report(coverage))


if __name__ == "__main__":
    main()
