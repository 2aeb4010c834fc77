"""What the `wakeful` command imports before it has anything to do: help and completion must be instant.

Times vary with the machine, so these tests pin the modules. `make bench` measures the CPU.
"""

import asyncio
import os
import sys
from typing import get_args

import pytest

from tests.support.processes import ROOT
from tests.support.waiting import BOUND_SECONDS
from wakeful.cli.app import COMMANDS
from wakeful.cli.commands.decide import ActionChoice
from wakeful.cli.options import OnBusyChoice
from wakeful.contract.decisions import DecisionAction
from wakeful.contract.runs import OnBusy

SLOW = {"temporalio", "google", "pydantic", "prompt_toolkit", "rich", "httpx", "jsonschema", "opentelemetry"}
LIGHT = {"wakeful", "wakeful.contract", "wakeful.contract.names"}
"""What may be imported of Wakeful outside its command line."""


PROGRAM = """
import os, sys
leave = os._exit
def report(code):
    print(*sys.modules, sep="\\n", file=sys.stderr, flush=True)
    leave(code)
os._exit = report
sys.argv[0] = "wakeful"
from wakeful.cli.app import main
main()
"""
"""`wakeful`, which prints its modules on standard error when it exits."""


async def imported(*args: str, **environ: str) -> set[str]:
    """The modules that a command imports."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, *args),
        cwd=ROOT,
        env={**os.environ, **environ},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(BOUND_SECONDS):
        _, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return set(err.decode().split())


def slow(modules: set[str]) -> list[str]:
    """The modules among these that take long to import, or import such modules."""
    of_wakeful = {name for name in modules if name.partition(".")[0] == "wakeful"} - LIGHT
    return sorted(
        {name for name in modules if name.partition(".")[0] in SLOW}
        | {name for name in of_wakeful if not name.startswith("wakeful.cli")}
    )


def commands_among(modules: set[str]) -> set[str]:
    return {name.rpartition(".")[2] for name in modules if name.startswith("wakeful.cli.commands.")}


async def test_help_imports_no_command() -> None:
    modules = await imported("--help")
    assert (slow(modules), commands_among(modules)) == ([], set())


@pytest.mark.parametrize("command", [*COMMANDS])
async def test_help_of_a_command_imports_that_command_alone(command: str) -> None:
    modules = await imported(command, "--help")
    assert (slow(modules), commands_among(modules)) == ([], {command})


@pytest.mark.parametrize(("line", "commands"), [("wakeful st", set()), ("wakeful watch --", {"watch"})])
async def test_completion_of_commands_and_options_is_as_light(line: str, commands: set[str]) -> None:
    words = line.split()
    modules = await imported(_WAKEFUL_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (slow(modules), commands_among(modules)) == ([], commands)


def test_choices_that_are_spelled_in_a_command_are_those_of_the_contract() -> None:
    assert get_args(OnBusyChoice) == tuple(OnBusy)
    assert get_args(ActionChoice) == tuple(DecisionAction)
