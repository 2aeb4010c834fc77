"""`python -m benchmarks`: measure, print the table, write the results. Exits 0 whenever it ran; targets are said."""

import argparse
import asyncio
import dataclasses
from pathlib import Path

from benchmarks.figures import Results, this_machine
from benchmarks.measure import MEASUREMENTS, measure
from benchmarks.plan import QUICK, Plan
from benchmarks.plot import plot
from benchmarks.report import report
from benchmarks.stage import stage
from wakeful.cli.process import run_and_leave

OUT = Path(__file__).parent / "results.json"


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="What Wakeful costs beside a hand-written Temporal workflow, on a Temporal server of its own.",
    )
    parser.add_argument("--quick", action="store_true", help="short runs, about a minute; too short for judging")
    parser.add_argument("--only", action="append", choices=[*MEASUREMENTS], help="measure this alone; may be repeated")
    parser.add_argument(
        "--repeat",
        type=int,
        metavar="N",
        help="samples of everything that is timed (default: 9; of kills, answers and starts 5; of watched runs 3)",
    )
    parser.add_argument("--sandbox", action="store_true", help="run the yardstick in the SDK's default sandbox")
    parser.add_argument("--out", type=Path, default=OUT, help="where the results go (default: benchmarks/results.json)")
    parser.add_argument("--plot", type=Path, metavar="SVG", help="also draw history bytes against steps")
    parser.add_argument("--show", type=Path, metavar="JSON", help="measure nothing: report on results written before")
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
    async with stage(sandboxed=options.sandbox) as set_up:
        await measure(set_up, plan, results, options.only or [*MEASUREMENTS])
    options.out.write_text(results.model_dump_json(indent=1) + "\n")
    return results


def main() -> None:
    options = arguments()
    written = options.show.read_text() if options.show else None
    results = Results.model_validate_json(written) if written else asyncio.run(measured(options))
    print(report(results))
    if options.plot:
        options.plot.write_text(plot(results))


if __name__ == "__main__":
    run_and_leave(main, name="benchmarks")
