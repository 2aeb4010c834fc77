"""The results as text: a table of ratios to the yardstick, the sizes of histories, and the targets."""

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.figures import AnswerHistory, Results, Series, line
from benchmarks.plan import KB
from benchmarks.sides import BARE, LOCAL, OURS, WHOLE
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


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [head, rule, *rows]
    ]
