"""`make simulate`: run many schedules on all cores, or one again, minimised and with a readable trace."""

import argparse
import logging
import os
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from tests.simulation.core import Core
from tests.simulation.coverage import Coverage, collecting, cover_directed, report
from tests.simulation.judge import Verdicts, judge_many
from tests.simulation.minimise import minimised
from tests.simulation.schedule import STEPS, repeat, run

BAR_WIDTH = 30
SHOWN_FAILURES = 5
"""How many different problems of a long run are minimised and printed."""
BATCH = 10


@dataclass
class Batch:
    """What some schedules came to."""

    schedules: int = 0
    activations: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str]] = field(default_factory=list)
    """Seed and problem."""
    coverage: Coverage = field(default_factory=Coverage)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    _be_quiet()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a shell's background jobs ignore Ctrl-C's signal
    if options.seed is not None:
        return explain(options.seed, options.steps)
    failed, coverage = simulate(options.first, options.schedules, options.steps, options.jobs)
    if options.coverage:
        coverage.add(cover_directed())
        print(f"\n{report(coverage)}")
    if options.judge:
        failed |= let_the_real_core_judge(options.first, options.judge, options.steps, options.jobs)
    return failed


def explain(seed: str, steps: int) -> int:
    """Run one schedule; if it fails, say with which moves, and what each of them did."""
    result = run(seed, steps)
    if result.error is None:
        print(f"seed {seed}: {len(result.moves)} moves, nothing found")
        return 0
    print(f"seed {seed} fails: {result.problem}")
    keys = minimised(result, progress=_print_progress)
    print(f"\nminimised from {result.wild or len(result.moves)} moves to {len(keys)}; then everything calms down:\n")
    again = repeat(seed, keys, traced=True)
    shown = (again.trace or [])[: len(keys)]
    print("\n".join(f"{number:4}  {line}" for number, line in enumerate(shown, start=1)))
    print(f"\n{type(again.error).__name__}: {again.error}")
    print(f"\nrepeat it with: make simulate SEED={seed} STEPS={steps}")
    return 1


def simulate(first: int, schedules: int, steps: int, jobs: int) -> tuple[int, Coverage]:
    """Run many schedules on all cores, and explain the first failure of each kind. Ctrl-C and SIGTERM end it early."""
    total, started = Batch(), time.monotonic()
    seeds = [str(seed) for seed in range(first, first + schedules)]
    with ProcessPoolExecutor(jobs) as pool:
        pending = [pool.submit(run_batch, batch, steps) for batch in _batches(seeds)]
        try:
            for done in as_completed(pending):
                batch = done.result()
                _add(total, batch)
                for seed, problem in batch.failures:  # at once: a long run may be interrupted
                    print(f"seed {seed}: {problem}", flush=True)
                _print_bar(total, schedules, time.monotonic() - started)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
    seconds = time.monotonic() - started
    print(
        f"\n{total.schedules} schedules of {steps} steps, {total.activations} activations in {seconds:.0f} s: "
        f"{total.schedules / seconds:.1f} schedules/s, {total.activations / seconds:.0f} activations/s; "
        f"{len(total.failures)} failed"
    )
    by_problem: dict[str, list[str]] = defaultdict(list)
    for seed, problem in sorted(total.failures, key=lambda failure: int(failure[0])):
        by_problem[problem].append(seed)
    for problem, found in by_problem.items():
        print(f"{len(found):5}  {problem}  seeds {', '.join(found[:8])}")
    for found in list(by_problem.values())[:SHOWN_FAILURES]:
        print()
        explain(found[0], steps)
    return (1 if total.failures else 0), total.coverage


def let_the_real_core_judge(first: int, schedules: int, steps: int, jobs: int) -> int:
    """Give the histories of some schedules to the SDK's core, which has to agree with its model."""
    total = Verdicts()
    seeds = [str(seed) for seed in range(first, first + schedules)]
    with ProcessPoolExecutor(jobs) as pool:
        for verdicts in pool.map(judge_batch, _batches(seeds), [steps] * len(seeds)):
            total += verdicts
    print(total)
    return 1 if total.disagreements else 0


def judge_batch(seeds: Sequence[str], steps: int) -> Verdicts:
    _be_quiet()
    return judge_many(seeds, steps)


def run_batch(seeds: Sequence[str], steps: int) -> Batch:
    """Some schedules in a process of their own."""
    _be_quiet()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends early, and counts what is done
    batch, before = Batch(), Core.activated
    for seed in seeds:
        with collecting(batch.coverage):
            result = run(seed, steps)
        batch.schedules += 1
        batch.coverage.schedules += 1
        batch.counts.update(result.world.counts)
        if result.error is not None:
            batch.failures.append((seed, result.problem))
    batch.activations = Core.activated - before
    return batch


def _add(total: Batch, batch: Batch) -> None:
    total.schedules += batch.schedules
    total.activations += batch.activations
    total.counts.update(batch.counts)
    total.failures += batch.failures
    total.coverage.add(batch.coverage)


def _batches(seeds: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(seeds), BATCH):
        yield seeds[start : start + BATCH]


def _print_bar(total: Batch, schedules: int, seconds: float) -> None:
    if not sys.stderr.isatty() and total.schedules % (10 * BATCH) and total.schedules != schedules:
        return
    filled = BAR_WIDTH * total.schedules // schedules
    left = seconds / total.schedules * (schedules - total.schedules)
    bar = "#" * filled + "." * (BAR_WIDTH - filled)
    end = "\r" if sys.stderr.isatty() else "\n"
    text = f"[{bar}] {total.schedules}/{schedules}, {len(total.failures)} failed, {left:.0f} s left   "
    print(text, end=end, file=sys.stderr, flush=True)


def _print_progress(tries: int, left: int) -> None:
    if sys.stderr.isatty():
        print(f"minimising: {left} moves left after {tries} tries   ", end="\r", file=sys.stderr, flush=True)


def _be_quiet() -> None:
    """Workflows log every fault; what matters is in the result."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", help="run the schedule of this seed, and explain it if it fails")
    parser.add_argument("--schedules", type=int, default=200, help="how many schedules to run (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"moves before the calm end (default: {STEPS})")
    parser.add_argument("--judge", type=int, default=0, help="give the histories of so many schedules to the real core")
    parser.add_argument(
        "--coverage", action="store_true", help="print which facts met which stages, after which faults"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
