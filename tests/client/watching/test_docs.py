"""docs/watching.md names every event there is, and no other."""

import re
from pathlib import Path
from typing import get_args

from wakeful.contract.events import AgentEvent

PAGE = Path(__file__).parents[3] / "docs/watching.md"


def test_the_page_names_every_event() -> None:
    union, _ = get_args(AgentEvent)
    table = PAGE.read_text().partition("## Events")[2]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(event.model_fields["event_type"].default for event in get_args(union))
