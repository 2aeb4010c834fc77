"""How long it takes to read a run from its history, against a query that a worker without the run in its cache answers.

A worker evicts a closed run from its sticky cache, so it replays the run for every query. A new reader replays it once,
in its own process, and has it in memory for later queries. A command is a process of its own: its CPU time includes the
interpreter, its imports and the replay.
"""

import asyncio
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.environment import Environment
from benchmarks.plan import KB, Plan
from benchmarks.results import Reading, Results
from benchmarks.sampling import progress
from benchmarks.workload import WAKEFUL
from wakeful.contract import names
from wakeful.contract.views import StatusView
from wakeful.history.reader import HistoryReader

COMMANDS = ("status", "show", "tree", "why")
WAKEFUL_COMMAND = str(Path(sys.executable).parent / "wakeful")


async def measure_reading(env: Environment, plan: Plan, results: Results) -> None:
    """Both, alternately."""
    side = next(side for side in env.sides if side.name == WAKEFUL)
    steps = plan.replay_steps
    thread_id = await env.run(side, steps=steps, size=KB)
    reading = Reading(steps=steps)
    for repeat in range(plan.repeat + 1):
        progress(f"reading: {steps} steps, {repeat} of {plan.repeat}")
        queried = await _query(env, thread_id)
        reader = HistoryReader(env.client)
        first, later = await _read(reader, thread_id), await _read(reader, thread_id)
        await reader.aclose()
        if repeat:  # the first repeat warms up
            reading.queried.append(queried)
            reading.first_read.append(first)
            reading.later_read.append(later)
            for command in COMMANDS:
                seconds = await asyncio.to_thread(_command_cpu, command, thread_id, env.address)
                reading.command_cpu.setdefault(command, []).append(seconds)
    results.reading = reading


async def _query(env: Environment, thread_id: str) -> float:
    before = time.perf_counter()
    await env.client.get_workflow_handle(thread_id).query(names.QUERY_STATUS, result_type=StatusView)
    return _milliseconds_since(before)


async def _read(reader: HistoryReader, thread_id: str) -> float:
    before = time.perf_counter()
    await reader.query(thread_id, names.QUERY_STATUS, StatusView)
    return _milliseconds_since(before)


def _command_cpu(command: str, thread_id: str, address: str) -> float:
    """The CPU seconds of a command, which is the only child process that ends meanwhile."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([WAKEFUL_COMMAND, command, thread_id, "--address", address], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3)


def _milliseconds_since(before: float) -> float:
    return round((time.perf_counter() - before) * 1000, 4)
