"""Pages tell the truth: the programs on them run, and print what the pages say."""

import asyncio
import re
import sys
from typing import get_args

import pytest

from tests.support.processes import ROOT
from wakeful.contract.budgets import Budget
from wakeful.contract.stopping import StopCondition

PROGRAM = re.compile(r"```python\n(import .*?)```\n\n```text\n(.*?)```", re.DOTALL)
PROGRAMS = {"threads": 2, "semantics": 1, "permissions": 1, "bounding-runs": 3, "asking-people": 3}
"""How many programs with their output each page has: a page that loses one must not lose its test in silence."""


def page(name: str) -> str:
    return (ROOT / f"docs/{name}.md").read_text()


EXAMPLES = [
    pytest.param(*found, id=f"{name}-{number}")
    for name in PROGRAMS
    for number, found in enumerate(PROGRAM.findall(page(name)), start=1)
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_of_a_page_is_found(name: str) -> None:
    assert len(PROGRAM.findall(page(name))) == PROGRAMS[name]


@pytest.mark.integration
@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
async def test_an_example_prints_what_the_page_says(code: str, printed: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert out.decode() == printed, err.decode()


def test_the_page_on_limits_compares_every_stop_condition_and_every_budget() -> None:
    table = page("bounding-runs").partition("## How they differ")[2]
    conditions = [condition.__name__ for condition in get_args(get_args(StopCondition)[0])]
    missing = [name for name in conditions if f"`{name}" not in table]
    assert missing + [limit for limit in Budget.model_fields if f"{limit}=" not in table] == []
