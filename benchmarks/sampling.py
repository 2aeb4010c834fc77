"""How samples are taken: sides interleaved, one series per quantity, CPU clocks, and progress on standard error.

The CPU clocks work on Linux only; elsewhere they return None.
"""

import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.environment import Side
from benchmarks.results import Results, Series


def interleaved(sides: Sequence[Side], repeat: int) -> Sequence[Side]:
    """Forwards, then backwards: a side that always came second would always pay for the cleanup after the first."""
    return sides if repeat % 2 == 0 else tuple(reversed(sides))


def new_series(results: Results, key: str, label: str, unit: str, *, more_is_better: bool = False) -> Series:
    series = Series(label=label, unit=unit, samples={}, more_is_better=more_is_better)
    results.series[key] = series
    return series


def add_sample(series: Series, side: Side, value: float | None) -> None:
    if value is not None:
        series.samples.setdefault(side.name, []).append(round(value, 4))


def progress(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def cpu_seconds(pid: int | None) -> float | None:
    """The CPU time that a process has used so far, over all its threads, in nanosecond resolution."""
    if pid is None or sys.platform != "linux":
        return None
    return time.clock_gettime(~pid << 3 | 2)  # the clock id that clock_getcpuclockid(3) returns


class OtherLoad:
    """How many cores processes outside the benchmark have used since this object was made."""

    def __init__(self, own_pids: Sequence[int | None]) -> None:
        self._own_pids = [os.getpid(), *own_pids]
        self._since = time.monotonic()
        self._used = self._used_by_others()

    def cores(self) -> float | None:
        before, now = self._used, self._used_by_others()
        if before is None or now is None:
            return None
        return round(max(0.0, (now - before) / (time.monotonic() - self._since)), 2)

    def _used_by_others(self) -> float | None:
        clocks = [cpu_seconds(pid) for pid in self._own_pids]
        known = [used for used in clocks if used is not None]
        return _machine_seconds() - sum(known) - _reaped_seconds() if len(known) == len(clocks) else None


def _reaped_seconds() -> float:
    """The CPU time of child processes that have exited, such as workers that the benchmark killed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _machine_seconds() -> float:
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting = fields[3], fields[4]
    return (sum(fields) - idle - waiting) / os.sysconf("SC_CLK_TCK")
