"""Every declared event is emitted: by the loop, or by the watcher for what is not in history."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from wakeful.contract.events import AgentEvent

PACKAGE = Path(__file__).parents[2] / "wakeful"
EMITTERS = ("loop", "client/watching", "contract")
UNION, _ = get_args(AgentEvent)
DECLARED = {event.__name__ for event in get_args(UNION)}


def constructed(folder: Path) -> Iterator[str]:
    """The names that the code of a folder calls; patterns of `match` are no calls."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield node.func.id


def test_every_declared_event_is_emitted() -> None:
    """B-702"""
    emitted = {name for folder in EMITTERS for name in constructed(PACKAGE / folder)}
    assert DECLARED - emitted == set(), "emit it in wakeful/loop, or remove it from AgentEvent"
    assert len(DECLARED) == 39
