"""docs/watching.md names every event there is, and no other, and its program shows an answer while it arrives."""

import asyncio
import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.docs.snippets import of_page
from wakeful.contract.events import AgentEvent

PAGE = Path(__file__).parents[3] / "docs/watching.md"


def test_the_page_names_every_event() -> None:
    union, _ = get_args(AgentEvent)
    table = PAGE.read_text().partition("## Events")[2]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(event.model_fields["event_type"].default for event in get_args(union))


@pytest.mark.server
async def test_the_program_shows_an_answer_while_it_arrives() -> None:
    """On a busy machine a watcher may see two words at once, so each line has to continue the one before it."""
    (live,) = [snippet for snippet in of_page(PAGE) if "class SlowModel" in snippet.code]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", live.code, stdout=asyncio.subprocess.PIPE)
    async with asyncio.timeout(60):
        printed = (await process.communicate())[0].decode().splitlines()
    *growing, last = printed
    assert last == live.printed.splitlines()[-1] == "= There are three left."
    assert growing
    assert set(growing) <= set(live.printed.splitlines())
    assert growing == sorted(growing, key=len)
