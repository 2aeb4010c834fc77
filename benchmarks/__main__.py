"""`python -m benchmarks`: measure, print the tables, write the results. Missed targets do not fail it."""

import argparse
import asyncio
import dataclasses
from pathlib import Path

from benchmarks.environment import environment
from benchmarks.measure import MEASUREMENTS, measure
from benchmarks.plan import QUICK, Plan
from benchmarks.plot import plot
from benchmarks.report import report
from benchmarks.results import Results, this_machine
from wakeful.cli.process import run_and_leave

OUT = Path(__file__).parent / "results.json"


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Wakeful against a hand-written Temporal workflow, on an embedded Temporal server.",
    )
    parser.add_argument("--quick", action="store_true", help="short runs, about a minute in all; too short to judge by")
    parser.add_argument("--only", action="append", choices=[*MEASUREMENTS], help="measure only this; may be repeated")
    parser.add_argument(
        "--repeat",
        type=int,
        metavar="N",
        help="samples per quantity (default: 9; 5 kills, answers and command starts; 3 watched runs)",
    )
    parser.add_argument("--sandbox", action="store_true", help="run the baseline in the SDK's default sandbox")
    parser.add_argument(
        "--out", type=Path, default=OUT, help="write the results to this file (default: benchmarks/results.json)"
    )
    parser.add_argument("--plot", type=Path, metavar="SVG", help="also plot history bytes against steps")
    parser.add_argument(
        "--show", type=Path, metavar="JSON", help="measure nothing; print the tables of an earlier results file"
    )
    parsed = parser.parse_args(argv)
    if parsed.repeat is not None and parsed.repeat < 1:
        parser.error("--repeat must be at least 1")
    return parsed


async def measured(options: argparse.Namespace) -> Results:
    plan = QUICK if options.quick else Plan()
    if options.repeat is not None:
        n = options.repeat
        plan = dataclasses.replace(plan, repeat=n, kills=n, watched=n, answers=n, starts=n)
    results = Results(machine=this_machine(bare_sandboxed=options.sandbox))
    async with environment(sandboxed=options.sandbox) as env:
        await measure(env, plan, results, options.only or [*MEASUREMENTS])
    options.out.write_text(results.model_dump_json(indent=1) + "\n")
    return results


def main() -> None:
    options = arguments()
    earlier = options.show.read_text() if options.show else None
    results = Results.model_validate_json(earlier) if earlier else asyncio.run(measured(options))
    print(report(results))
    if options.plot:
        options.plot.write_text(plot(results))


if __name__ == "__main__":
    run_and_leave(main, name="benchmarks")
