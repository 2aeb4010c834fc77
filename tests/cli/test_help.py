"""`--help` and `--version`, on a terminal of 80 columns."""

import re
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from tests.support.processes import ROOT, WAKEFUL
from wakeful.cli.app import COMMANDS, app, load_command

COLUMNS = 80


def commands() -> list[tuple[str, ...]]:
    """Every command, and every command of those that have some."""
    within = [(name, sub) for name in COMMANDS for sub in getattr(load_command(name), "commands", {})]
    return [*((name,) for name in COMMANDS), *within]


def help_of(*words: str) -> str:
    ran = CliRunner().invoke(app, [*words, "--help"], prog_name="wakeful", env={"COLUMNS": str(COLUMNS)})
    assert (ran.exit_code, ran.stderr) == (0, "")
    return ran.stdout


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("words", [(), *commands()], ids=" ".join)
def test_help_fits_a_terminal_of_80_columns(words: tuple[str, ...]) -> None:
    lines = help_of(*words).splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []
    assert [line for line in lines if re.search(r"\w-$", line)] == [], "a word is broken at its hyphen"
    ellipses = [line for line in lines if "…" in line or re.search(r"(?<![\]}])\.\.\.", line)]
    assert ellipses == [], "text is cut"


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_shows_the_whole_text_of_every_option(words: tuple[str, ...]) -> None:
    command = load_command(words[0])
    for word in words[1:]:
        command = command.commands[word]
    shown = flat(help_of(*words))
    texts = [command.help, *(parameter.help for parameter in command.params)]
    assert [text for text in texts if text and flat(text) not in shown] == []


def test_every_command_is_one_line_of_the_help() -> None:
    lines = help_of().splitlines()
    width = max(map(len, COMMANDS))
    assert [name for name, help in COMMANDS.items() if f"  {name.ljust(width)}  {help}" not in lines] == []


@pytest.mark.parametrize(
    "program", [[WAKEFUL], [sys.executable, "-m", "wakeful"]], ids=["wakeful", "python -m wakeful"]
)
def test_the_version_is_that_of_the_package(program: list[str]) -> None:
    ran = subprocess.run([*program, "--version"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"wakeful {version('wakeful')}\n", "")


def test_python_m_wakeful_runs_commands() -> None:
    command = [sys.executable, "-m", "wakeful", "queue", "--help"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("Usage: python -m wakeful queue ")
