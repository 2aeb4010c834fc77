"""docs/agents.md has every field of `Agent`, with its type and its default."""

import ast
import inspect
import re
from enum import Enum

from pydantic import BaseModel

from tests.support.processes import ROOT
from wakeful import Agent

PAGE = (ROOT / "docs/agents.md").read_text()
ROWS = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in PAGE.splitlines() if line.startswith("| `")]


def types() -> dict[str, str]:
    """The types of the fields, as the class writes them."""
    (declared,) = ast.parse(inspect.getsource(Agent)).body
    assert isinstance(declared, ast.ClassDef)
    annotated = {
        node.target.id: ast.unparse(node.annotation)
        for node in declared.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return {name: type for name, type in annotated.items() if not type.startswith("ClassVar[")}


def default(name: str) -> str:
    """The default of a field, as one writes it in code."""
    field = Agent.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    match value:
        case Enum():
            return f"`{type(value).__name__}.{value.name}`"
        case str():
            return f'`"{value}"`'
        case BaseModel() if value == type(value)():
            return f"`{type(value).__name__}()`"
        case _:
            return f"`{value!r}`"


def test_the_page_has_every_field_with_its_type_and_default() -> None:
    shown = {name: (type.replace("\\|", "|"), default) for name, type, default, _ in ROWS}
    there = {f"`{name}`": (f"`{type}`", default(name)) for name, type in types().items()}
    assert set(types()) == set(Agent.model_fields)
    assert shown == there


def test_every_field_is_on_the_page_once() -> None:
    assert len(ROWS) == len({row[0] for row in ROWS}) == len(Agent.model_fields)


def test_every_group_of_fields_links_to_the_pages_that_explain_them() -> None:
    unlinked = [name for name, _, _, text in ROWS if ".md" not in text]
    assert unlinked == [
        "`excluded_tools`",
        "`max_parallel_calls`",
        "`active_plugins`",
    ]  # the row above each has the link
