"""mypy and pyright see a tool's own signature: also of a method, without its `self`."""

import asyncio
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT

pytestmark = pytest.mark.integration

SOURCE = '''
from collections.abc import Callable

from typing_extensions import reveal_type

from wakeful import Agent, Tool, ToolContext, tool


@tool
def find(order: str, limit: int = 3) -> list[str]:
    """Find."""
    return [order] * limit


@tool(read_only=True, retries=2)
async def fetch(url: str, ctx: ToolContext, *, fresh: bool = False) -> bytes:
    """Fetch."""
    return url.encode()


class Desk:
    @tool
    def look(self, order: str) -> int:
        """Look."""
        return len(order)

    @tool(idempotent=True)
    async def ship(self, order: str, *, express: bool = False) -> str:
        """Ship."""
        return order

    @staticmethod
    @tool
    def price(order: str) -> float:
        """Price."""
        return float(order)


desk = Desk()


async def reveal(ctx: ToolContext) -> None:
    reveal_type(find("7"))
    reveal_type(find("7", limit=1))
    reveal_type(await fetch("/", ctx, fresh=True))
    reveal_type(desk.look("7"))
    reveal_type(await desk.ship("7", express=True))
    reveal_type(desk.price("7"))
    reveal_type(Desk.price("7"))


def takes_a_function(function: Callable[[str], int], any_tool: Tool) -> Tool:
    return any_tool


SEVERAL = [find, fetch, desk.look]
takes_a_function(desk.look, find)
Agent(id="a", tools=SEVERAL)
Agent(id="b", tools=[*SEVERAL, desk.ship, Desk.price, "search"])

find(7)
find("7", pages=1)
desk.look()
_ = desk.ship("7", True)
takes_a_function(find, find)
'''
REVEALED = ["list[str]", "list[str]", "bytes", "int", "str", "float", "float"]
LINES = SOURCE.splitlines()
WRONG = range(LINES.index("find(7)") + 1, len(LINES) + 1)
"""The lines that a type checker has to reject."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "pyrightconfig.json").write_text("{}")
    (tmp_path / "signatures.py").write_text(SOURCE)
    return tmp_path / "signatures.py"


async def test_mypy_sees_the_signatures_of_tools(source: Path) -> None:
    printed = await _printed(ROOT, sys.executable, "-m", "mypy", "--no-explicit-package-bases", source)
    assert re.findall(r'Revealed type is "(.*?)"', printed.replace("builtins.", "")) == REVEALED
    assert [int(line) for line in re.findall(r"signatures.py:(\d+): error", printed)] == [*WRONG], printed


@pytest.mark.skipif(shutil.which("npx") is None, reason="there is no Node.js")
async def test_pyright_sees_the_signatures_of_tools(source: Path) -> None:
    printed = await _printed(
        source.parent, "npx", "--yes", "pyright", "--outputjson", "--pythonpath", sys.executable, source
    )
    found = json.loads(printed)["generalDiagnostics"]
    revealed = [each["message"] for each in found if each["severity"] == "information"]
    assert [re.findall(r'is "(.*)"$', message)[0] for message in revealed] == REVEALED
    rejected = {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}
    assert rejected == {*WRONG}, printed


async def _printed(folder: Path, *command: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(300):
        return (await process.communicate())[0].decode()
