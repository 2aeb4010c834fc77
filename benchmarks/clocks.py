"""CPU clocks: of one process, of the whole machine, and of everybody else. Linux only; elsewhere they say nothing."""

import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def cpu_seconds(pid: int | None) -> float | None:
    """The CPU that a process has used so far, all its threads, to the nanosecond."""
    if pid is None or sys.platform != "linux":
        return None
    return time.clock_gettime(~pid << 3 | 2)  # the clock that clock_getcpuclockid(3) would name


class Neighbours:
    """How many cores were busy with other work since this began: how far the times can be trusted."""

    def __init__(self, ours: Sequence[int | None]) -> None:
        self._ours = [os.getpid(), *ours]
        self._since = time.monotonic()
        self._used = self._used_by_others()

    def cores(self) -> float | None:
        before, now = self._used, self._used_by_others()
        if before is None or now is None:
            return None
        return round(max(0.0, (now - before) / (time.monotonic() - self._since)), 2)

    def _used_by_others(self) -> float | None:
        clocks = [cpu_seconds(pid) for pid in self._ours]
        known = [used for used in clocks if used is not None]
        return _machine_seconds() - sum(known) - _reaped_seconds() if len(known) == len(clocks) else None


def _reaped_seconds() -> float:
    """The CPU of children that are gone: workers that were killed are no neighbours."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _machine_seconds() -> float:
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting = fields[3], fields[4]
    return (sum(fields) - idle - waiting) / os.sysconf("SC_CLK_TCK")
