"""The results as text: a table of ratios to the yardstick, the sizes of histories, and the targets."""

import statistics
from collections.abc import Iterable, Iterator, Sequence

from benchmarks.figures import AnswerHistory, Results, Series, Startup, line, percentile
from benchmarks.plan import KB
from benchmarks.sides import BARE, LOCAL, OURS, PEER, WHOLE
from benchmarks.targets import targets

NOT_THERE = "n/a"


def report(results: Results) -> str:
    machine, elsewhere = results.machine, results.machine.busy_elsewhere
    sandbox = "in the SDK's default sandbox" if machine.bare_sandboxed else "unsandboxed, as Wakeful is"
    lines = [
        f"Python {machine.python}, temporalio {machine.temporalio}, {machine.system}, {machine.cores} cores, "
        f"{NOT_THERE if elsewhere is None else elsewhere} of them busy with other work meanwhile",
        f"bare = a hand-written workflow with inputs of constant size, {sandbox}; the same worker settings",
    ]
    if results.series:
        lines += ["", "Medians, as multiples of bare (in brackets: least and most of all repeats)", ""]
        lines += _table(["", BARE, OURS, LOCAL], [_timed(series) for series in results.series.values()])
    if results.histories:
        lines += ["", "History, as multiples of bare", ""]
        lines += _table(["", BARE, OURS, LOCAL, WHOLE], list(_sizes(results)))
        lines += ["", "History a step (a straight line through all lengths)", ""]
        lines += _table(["", "bytes a step", "fixed bytes", "R²", "events a step"], list(_fits(results)))
    if results.answers:
        lines += ["", "History of one answer, times left out", ""]
        lines += _table(["", "bytes", "events"], [_answered(answer) for answer in results.answers])
    if results.watched:
        lines += [
            "",
            "Runs that are watched: history, times left out; time and CPU as multiples of nobody watching",
            "",
        ]
        head = ["", "events", "bytes", "time", "worker CPU", "token lag p50", "p95"]
        lines += _table(head, [*_watched(results, OURS), *_watched(results, PEER)])
    if lags := list(_lags(results)):
        lines += ["", "How late a watcher sees, in ms (medians of answers; of all decisions)", ""]
        lines += _table(["", "p50", "p95"], lags)
    if results.startups:
        lines += ["", "CPU until a command starts its work", ""]
        lines += _table(["", "best", "median"], [_startup(startup) for startup in results.startups])
    lines += ["", "Targets", ""]
    lines += [str(target) for target in targets(results)]
    return "\n".join(lines)


def _timed(series: Series) -> list[str]:
    bare = series.median(BARE)
    absolute = NOT_THERE if bare is None else f"{bare:.1f} {series.unit}"
    return [series.label, absolute, _multiple(series.ratios(OURS)), _multiple(series.ratios(LOCAL))]


def _multiple(ratios: Sequence[float]) -> str:
    if not ratios:
        return NOT_THERE
    return f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"


def _sizes(results: Results) -> Iterator[list[str]]:
    for size in sorted({history.size for history in results.histories}):
        for point in results.points(BARE, size):
            row = [f"{point.steps} steps of {size // KB} KB", f"{point.bytes / KB:,.0f} KB"]
            for side in (OURS, LOCAL, WHOLE):
                found = results.history(side, point.steps, size)
                row.append(f"{found.bytes / point.bytes:.2f}x" if found else NOT_THERE)
            yield row


def _fits(results: Results) -> Iterator[list[str]]:
    for size in sorted({history.size for history in results.histories}):
        for side in (BARE, OURS, LOCAL, WHOLE):
            points = results.points(side, size)
            if len(points) < 3:
                continue
            weight = line([(float(point.steps), float(point.bytes)) for point in points])
            events = line([(float(point.steps), float(point.events)) for point in points])
            yield [
                f"{side}, {size // KB} KB",
                f"{weight.slope:,.0f}",
                f"{weight.intercept:,.0f}",
                f"{weight.r2:.5f}",
                f"{events.slope:.2f}",
            ]


def _answered(answer: AnswerHistory) -> list[str]:
    return [f"{answer.agent}, {answer.tokens:,} tokens", f"{answer.bytes:,}", f"{answer.events}"]


def _watched(results: Results, side: str) -> Iterator[list[str]]:
    runs = results.watched_runs(side)
    nobody = runs.get(0, [])
    for watchers, taken in runs.items():
        yield [
            f"{side}, {watchers} watching",
            _each(run.events for run in taken),
            _each(run.bytes for run in taken),
            _multiple(_over([run.seconds for run in taken], [run.seconds for run in nobody])),
            _multiple(_over([run.worker_cpu for run in taken], [run.worker_cpu for run in nobody])),
            _middle([run.lag_p50 for run in taken]),
            _middle([run.lag_p95 for run in taken]),
        ]


def _each(counts: Iterable[int]) -> str:
    """One number if all runs agree, and every one of them if not."""
    return " or ".join(f"{count:,}" for count in sorted(set(counts)))


def _over(some: Sequence[float | None], others: Sequence[float | None]) -> list[float]:
    return [one / other for one, other in zip(some, others, strict=False) if one is not None and other]


def _middle(samples: Sequence[float | None]) -> str:
    known = [sample for sample in samples if sample is not None]
    return f"{statistics.median(known):.0f} ms" if known else NOT_THERE


def _lags(results: Results) -> Iterator[list[str]]:
    p50, p95 = results.series.get("watching.lag_p50"), results.series.get("watching.lag_p95")
    if p50 is not None and p95 is not None:
        for side in p50.samples:
            yield [f"token, {side}", _middle(p50.samples[side]), _middle(p95.samples[side])]
    if (visible := results.series.get("watching.visible")) is not None:
        for side, taken in visible.samples.items():
            yield [f"decision, {side}", _middle(taken), f"{percentile(taken, 95):.0f} ms"]


def _startup(startup: Startup) -> list[str]:
    return [startup.command, f"{startup.best:.2f} s", f"{statistics.median(startup.seconds):.2f} s"]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, rule, *rows]
    ]
