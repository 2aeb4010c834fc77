"""The CPU time of a command before its work starts: the interpreter, imports, and parsing the command line."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.environment import Environment
from benchmarks.plan import Plan
from benchmarks.results import Results, Startup
from benchmarks.sampling import cpu_seconds, progress

PYTHON = "python -c pass"
SDK = 'python -c "import temporalio.client"'
HELP = "wakeful --help"
COMMAND_HELP = "wakeful run --help"
COMPLETION = "completion of a command"
STATUS = "wakeful status, before its first RPC"

WAKEFUL_COMMAND = str(Path(sys.executable).parent / "wakeful")
TIMEOUT_SECONDS = 60.0


async def measure_startup(env: Environment, plan: Plan, results: Results) -> None:
    """The commands, Python alone, and an import of the SDK's client, interleaved."""
    del env
    taken: dict[str, list[float]] = {name: [] for name in MEASURED}
    for repeat in range(plan.starts):
        for name, measure in MEASURED.items():
            progress(f"startup: {name}, {repeat + 1} of {plan.starts}")
            seconds = await asyncio.to_thread(measure)
            if seconds is not None:
                taken[name].append(seconds)
    results.startups = [Startup(command=name, seconds=seconds) for name, seconds in taken.items() if seconds]


def _until_exit(*command: str, environ: Mapping[str, str] | None = None) -> float:
    """The CPU time of a process, from its start to its end."""
    with subprocess.Popen(
        command, env={**os.environ, **(environ or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command!r} exited with {process.returncode}")
    return used.ru_utime + used.ru_stime


def _before_first_rpc(*command: str) -> float | None:
    """The CPU time of a `wakeful` command when it connects; None except on Linux."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_SECONDS)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        process = subprocess.Popen(
            [*command, "--address", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with server.accept()[0]:
                return cpu_seconds(process.pid)
        finally:
            process.kill()
            process.wait()


_SHELL = {"_WAKEFUL_COMPLETE": "complete_bash", "COMP_WORDS": "wakeful st", "COMP_CWORD": "1"}

MEASURED: dict[str, Callable[[], float | None]] = {
    PYTHON: lambda: _until_exit(sys.executable, "-c", "pass"),
    SDK: lambda: _until_exit(sys.executable, "-c", "import temporalio.client"),
    HELP: lambda: _until_exit(WAKEFUL_COMMAND, "--help"),
    COMMAND_HELP: lambda: _until_exit(WAKEFUL_COMMAND, "run", "--help"),
    COMPLETION: lambda: _until_exit(WAKEFUL_COMMAND, environ=_SHELL),
    STATUS: lambda: _before_first_rpc(WAKEFUL_COMMAND, "status", "t"),
}
