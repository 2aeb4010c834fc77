"""Search tools: `select:a,b` by name, `+required rest` or plain keywords by name and description."""

import re
from collections.abc import Sequence

from wakeful import ToolDescriptor

SELECT = "select:"
_WORD = re.compile(r"[^\W_]+")


def search(tools: Sequence[ToolDescriptor], query: str, *, max_results: int) -> list[ToolDescriptor]:
    """The tools that match, the best match first; with `select:`, in the order of the query."""
    if query.startswith(SELECT):
        by_id = {tool.id: tool for tool in tools}
        named = dict.fromkeys(name.strip() for name in query.removeprefix(SELECT).split(","))
        return [by_id[name] for name in named if name in by_id]
    terms = query.lower().split()
    required = [term[1:] for term in terms if term.startswith("+") and len(term) > 1]
    scored = [
        (-sum(_score(tool, term.lstrip("+")) for term in terms), tool.id, tool)
        for tool in tools
        if all(_score(tool, term) for term in required)
    ]
    return [tool for score, _, tool in sorted(scored, key=lambda entry: entry[:2]) if score][:max_results]


def _score(tool: ToolDescriptor, term: str) -> int:
    """How well a tool matches a word; a match in its name counts more than one in its description."""
    name, description = tool.id.lower(), tool.description.lower()
    if not term:
        return 0
    if term == name or term in _WORD.findall(name):
        return 4
    if term in name:
        return 3
    return 2 if term in _WORD.findall(description) else int(term in description)
