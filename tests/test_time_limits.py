"""No test hangs: one that blocks an event loop fails with the stack, and one that does not end fails at its limit."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.blocked_loops import Blocked, watching_loops
from tests.support.waiting import BOUND_SECONDS

SECONDS = 0.4


class Reports:
    """What a watch of its own reports, which code that blocks can wait for."""

    def __init__(self) -> None:
        self.blocked: list[Blocked] = []
        self._reported = threading.Event()

    def take(self, blocked: Blocked) -> None:
        self.blocked.append(blocked)
        self._reported.set()

    def sleep(self) -> None:
        assert self._reported.wait(BOUND_SECONDS)

    def spin(self) -> None:
        until = time.monotonic() + BOUND_SECONDS
        while not self._reported.is_set():
            assert time.monotonic() < until


@pytest.mark.parametrize("how", ["sleep", "spin"])
async def test_a_blocked_loop_is_reported_once_with_the_stack_of_its_thread(how: str) -> None:
    reports = Reports()
    with watching_loops(reports.take, SECONDS):
        getattr(reports, how)()
        await asyncio.sleep(0)
    (blocked,) = reports.blocked
    assert f"in {how}" in blocked.stack
    assert "test_time_limits.py" in blocked.stack


async def test_a_loop_that_awaits_a_task_that_has_ended_again_and_again_is_blocked() -> None:
    reports, ended = Reports(), asyncio.create_task(asyncio.sleep(0))
    await ended
    with watching_loops(reports.take, SECONDS):
        async with asyncio.timeout(BOUND_SECONDS):
            while not reports.blocked:
                await asyncio.shield(ended)
    assert "in test_a_loop_that_awaits_a_task" in reports.blocked[0].stack


async def test_a_loop_that_waits_or_works_in_turns_is_not_blocked() -> None:
    reports = Reports()
    with watching_loops(reports.take, SECONDS):
        await asyncio.to_thread(time.sleep, 3 * SECONDS)
        until = time.monotonic() + 3 * SECONDS
        while time.monotonic() < until:
            await asyncio.sleep(0)
    assert reports.blocked == []


async def test_a_loop_that_gets_no_cpu_is_not_blocked() -> None:
    """Many programs share its CPU, and a thread of its own process uses Python all the time."""
    reports, stopped = Reports(), threading.Event()

    def compete() -> None:
        while not stopped.is_set():
            pass

    with contextlib.ExitStack() as stack:
        stack.callback(stopped.set)
        for _ in range(12):
            program = await asyncio.create_subprocess_exec(sys.executable, "-c", "while True: pass")
            stack.callback(program.kill)
        threading.Thread(target=compete).start()
        with watching_loops(reports.take, SECONDS):
            until = time.monotonic() + 5 * SECONDS
            while time.monotonic() < until:
                sum(range(200_000))
                await asyncio.sleep(0.001)
    assert reports.blocked == []


HANGING = """
import asyncio, time
import pytest

async def test_waits():
    await asyncio.Event().wait()

def test_sleeps():
    time.sleep(60)

@pytest.fixture
async def hanging():
    await asyncio.Event().wait()

async def test_has_a_fixture_that_waits(hanging): ...

@pytest.mark.integration  # its limit is longer
async def test_blocks_the_loop():
    time.sleep(3)

async def test_passes(): ...
"""


def test_a_test_that_hangs_fails_and_those_after_it_run(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\ntime_limit = 2\nmarkers = integration\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.time_limits", "-p", "no:cacheprovider", "-q", "-rA"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_SECONDS)
    outcomes = {line.split(" - ")[0] for line in ran.stdout.splitlines() if "test_hanging.py::" in line}
    assert outcomes == {
        "FAILED test_hanging.py::test_waits",
        "FAILED test_hanging.py::test_sleeps",
        "ERROR test_hanging.py::test_has_a_fixture_that_waits",
        "FAILED test_hanging.py::test_blocks_the_loop",
        "PASSED test_hanging.py::test_passes",
    }, ran.stdout + ran.stderr
    for shown in (
        "not finished after 2 s",
        "await asyncio.Event().wait()",
        "has been blocked for",
        "    time.sleep(3)",
    ):
        assert shown in ran.stdout
