"""How samples are taken: the sides in turn, one series a quantity, and a word of progress."""

import sys
from collections.abc import Sequence

from benchmarks.figures import Results, Series
from benchmarks.stage import Side


def in_turn(sides: Sequence[Side], repeat: int) -> Sequence[Side]:
    """Forwards and backwards: whoever is always second would pay for what the first left behind."""
    return sides if repeat % 2 == 0 else tuple(reversed(sides))


def new_series(results: Results, key: str, label: str, unit: str, *, more_is_better: bool = False) -> Series:
    series = Series(label=label, unit=unit, samples={}, more_is_better=more_is_better)
    results.series[key] = series
    return series


def add(series: Series, side: Side, value: float | None) -> None:
    if value is not None:
        series.samples.setdefault(side.name, []).append(round(value, 4))


def say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)
