"""The results as text: ratios to the baseline, history sizes, and the targets."""

import statistics
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.plan import KB
from benchmarks.results import (
    AnswerHistory,
    IdleFleet,
    Reading,
    Rebuild,
    Recovery,
    Results,
    Series,
    Simulation,
    Startup,
    TracingCost,
    line,
    percentile,
)
from benchmarks.targets import targets
from benchmarks.workload import BARE, LOCAL, WAKEFUL, WHOLE, WORKFLOW_STREAMS

MISSING = "n/a"


def report(results: Results) -> str:
    machine, other_load = results.machine, results.machine.busy_elsewhere
    sandbox = "in the SDK's default sandbox" if machine.bare_sandboxed else "unsandboxed, as Wakeful is"
    lines = [
        f"Python {machine.python}, temporalio {machine.temporalio}, {machine.system}, {machine.cores} cores, "
        f"{MISSING if other_load is None else other_load} of them used by other processes meanwhile",
        f"bare = a hand-written workflow with inputs of constant size, {sandbox}, with the same worker settings",
    ]
    if results.series:
        lines += ["", "Medians, as multiples of bare (in brackets: minimum and maximum of all repeats)", ""]
        lines += table(["", BARE, WAKEFUL, LOCAL], [_timed(series) for series in results.series.values()])
    if results.histories:
        lines += ["", "History, as multiples of bare", ""]
        lines += table(["", BARE, WAKEFUL, LOCAL, WHOLE], list(_sizes(results)))
        lines += ["", "History per step (least-squares line through all lengths)", ""]
        lines += table(["", "bytes per step", "fixed bytes", "R²", "events per step"], list(_fits(results)))
    if results.answers:
        lines += ["", "History of one answer, without times", ""]
        lines += table(["", "bytes", "events"], [_answer(answer) for answer in results.answers])
    if results.watched:
        title = "Watched runs: history without times; time and CPU as multiples of the run without watchers"
        lines += ["", title, ""]
        head = ["", "events", "bytes", "time", "worker CPU", "token lag p50", "p95"]
        lines += table(head, [*_watched(results, WAKEFUL), *_watched(results, WORKFLOW_STREAMS)])
    if lags := list(_lags(results)):
        lines += ["", "Watch latency (tokens: medians over answers; decisions: over all decisions)", ""]
        lines += table(["", "p50", "p95"], lags)
    if (reading := results.reading) is not None:
        lines += ["", f"A query of a closed run of {reading.steps} steps, as multiples of a worker's answer", ""]
        lines += table(["", "worker", "first read", "later reads"], [_reading(reading)])
        if reading.command_cpu:
            lines += ["", "CPU time of a command that reads it, which needs no worker", ""]
            rows = [[name, f"{statistics.median(taken):.2f} s"] for name, taken in reading.command_cpu.items()]
            lines += table(["", "median"], rows)
    if (rebuild := results.rebuild) is not None:
        title = f"A conversation of {rebuild.messages} messages ({rebuild.steps} steps of {rebuild.kilobytes} KB) on a "
        lines += ["", title + "worker with an empty cache, as multiples of reading every execution's history", ""]
        lines += table(["", "every history", "newest history and archives"], [_rebuild(rebuild)])
    if results.startups:
        lines += ["", "CPU time until a command starts its work", ""]
        lines += table(["", "best", "median"], [_startup(startup) for startup in results.startups])
    if (simulation := results.simulation) is not None:
        title = f"The simulation: {simulation.schedules} schedules of {simulation.steps} moves, one core"
        lines += ["", title, ""]
        lines += table(
            ["", "schedules per second", "real core, activations per second", "model of core"],
            [_simulation(simulation)],
        )
    if (tracing := results.tracing) is not None:
        lines += ["", f"A step with tracing, as multiples of one without, in runs of {tracing.steps} steps", ""]
        lines += table(["", "off", "on"], list(_tracing(tracing)))
    if results.idle_fleets:
        lines += ["", "Calls of an idle fleet, besides its polls for tasks", ""]
        lines += table(["", "calls per second", "in all"], [_idle(fleet) for fleet in results.idle_fleets])
    if results.recovery is not None:
        lines += ["", "From a decision to the end of its run, after kill -9 of its worker", ""]
        lines += table(["", "p50", "p95"], list(_recovery(results.recovery)))
    lines += ["", "Targets", ""]
    lines += [str(target) for target in targets(results)]
    return "\n".join(lines)


def _timed(series: Series) -> list[str]:
    bare = series.median(BARE)
    absolute = MISSING if bare is None else f"{bare:.1f} {series.unit}"
    return [series.label, absolute, _multiple(series.ratios(WAKEFUL)), _multiple(series.ratios(LOCAL))]


def _multiple(ratios: Sequence[float]) -> str:
    if not ratios:
        return MISSING
    return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"


def _sizes(results: Results) -> Iterator[list[str]]:
    for size in sorted({history.size for history in results.histories}):
        for point in results.points(BARE, size):
            row = [f"{point.steps} steps of {size // KB} KB", f"{point.bytes / KB:,.0f} KB"]
            for side in (WAKEFUL, LOCAL, WHOLE):
                found = results.history(side, point.steps, size)
                row.append(f"{found.bytes / point.bytes:.2f}x" if found else MISSING)
            yield row


def _fits(results: Results) -> Iterator[list[str]]:
    for size in sorted({history.size for history in results.histories}):
        for side in (BARE, WAKEFUL, LOCAL, WHOLE):
            points = results.points(side, size)
            if len(points) < 3:
                continue
            size_fit = line([(float(point.steps), float(point.bytes)) for point in points])
            event_fit = line([(float(point.steps), float(point.events)) for point in points])
            yield [
                f"{side}, {size // KB} KB",
                f"{size_fit.slope:,.0f}",
                f"{size_fit.intercept:,.0f}",
                f"{size_fit.r2:.5f}",
                f"{event_fit.slope:.2f}",
            ]


def _answer(answer: AnswerHistory) -> list[str]:
    return [f"{answer.agent}, {answer.tokens:,} tokens", f"{answer.bytes:,}", f"{answer.events}"]


def _watched(results: Results, side: str) -> Iterator[list[str]]:
    runs = results.watched_runs(side)
    unwatched = runs.get(0, [])
    for watchers, taken in runs.items():
        yield [
            f"{side}, {watchers} watcher{'' if watchers == 1 else 's'}",
            _distinct(run.events for run in taken),
            _distinct(run.bytes for run in taken),
            _multiple(_quotients([run.seconds for run in taken], [run.seconds for run in unwatched])),
            _multiple(_quotients([run.worker_cpu for run in taken], [run.worker_cpu for run in unwatched])),
            _median_ms([run.lag_p50 for run in taken]),
            _median_ms([run.lag_p95 for run in taken]),
        ]


def _distinct(counts: Iterable[int]) -> str:
    """One number if all runs agree, otherwise every number."""
    return " or ".join(f"{count:,}" for count in sorted(set(counts)))


def _quotients(numerators: Sequence[float | None], denominators: Sequence[float | None]) -> list[float]:
    return [
        above / below for above, below in zip(numerators, denominators, strict=False) if above is not None and below
    ]


def _median_ms(samples: Sequence[float | None]) -> str:
    known = [sample for sample in samples if sample is not None]
    return f"{statistics.median(known):.0f} ms" if known else MISSING


def _lags(results: Results) -> Iterator[list[str]]:
    p50, p95 = results.series.get("watching.lag_p50"), results.series.get("watching.lag_p95")
    if p50 is not None and p95 is not None:
        for side in p50.samples:
            yield [f"token, {side}", _median_ms(p50.samples[side]), _median_ms(p95.samples[side])]
    if (visible := results.series.get("watching.visible")) is not None:
        for side, taken in visible.samples.items():
            yield [f"decision, {side}", _median_ms(taken), f"{percentile(taken, 95):.0f} ms"]


def _reading(reading: Reading) -> list[str]:
    reads = (_multiple(reading.multiples(samples)) for samples in (reading.first_read, reading.later_read))
    return ["status", _median_ms(reading.queried), *reads]


def _rebuild(rebuild: Rebuild) -> list[str]:
    label = f"{rebuild.executions} executions, {rebuild.segments} segments"
    return [label, _median_ms(rebuild.histories), _multiple(rebuild.multiples)]


def _simulation(simulation: Simulation) -> list[str]:
    run, real = statistics.median(simulation.run), statistics.median(simulation.real)
    return ["simulation", f"{run:.2f}", f"{real:,.0f}", _multiple(simulation.multiples)]


def _tracing(tracing: TracingCost) -> Iterator[list[str]]:
    yield ["time per step", f"{statistics.median(tracing.off):.1f} ms", _multiple(tracing.multiples)]
    yield ["worker CPU per step", f"{statistics.median(tracing.off_cpu):.1f} ms", _multiple(tracing.cpu_multiples)]


def _recovery(recovery: Recovery) -> Iterator[list[str]]:
    for name, taken in (("asleep", recovery.sleeping), ("given a task", recovery.in_progress)):
        if taken:
            yield [f"{name}, {len(taken)} runs", *(f"{percentile(taken, percent):.1f} s" for percent in (50, 95))]


def _idle(fleet: IdleFleet) -> list[str]:
    workers = "1 worker" if fleet.workers == 1 else f"{fleet.workers} workers"
    called = ", ".join(f"{count} {name}" for name, count in sorted(fleet.calls.items()))
    return [f"{workers}, {fleet.children:,} sleeping sub-agents", f"{fleet.rate:.2f}", called]


def _startup(startup: Startup) -> list[str]:
    return [startup.command, f"{startup.best:.2f} s", f"{statistics.median(startup.seconds):.2f} s"]


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, rule, *rows]
    ]
