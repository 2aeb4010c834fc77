"""A tool call as it stands on a terminal: while the model writes it, while it runs, and with what came of it."""

import time
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.cli.terminal.render import called, printable
from wakeful.contract.tools import ToolResult


@dataclass(frozen=True)
class Call:
    """A tool call while it is on the screen."""

    name: str
    arguments: JsonValue = None
    partial: str = ""
    """As much of the arguments as the model has written, until they are whole."""
    at: int = 0
    seen: float = field(default_factory=time.monotonic)
    progress: str = ""
    goes_on: bool | None = None
    """How it was decided, if that is known here."""

    @property
    def words(self) -> str:
        return printable(f"{self.name}({self.partial}") if self.partial else called(self.name, self.arguments)


@dataclass(frozen=True)
class Result:
    """What a call came to, as it is unfolded."""

    words: str
    result: ToolResult


def resumed(call: Call, payload: JsonValue) -> ToolResult:
    """What a call came to that was decided. Without a result it was refused, or its tool has none."""
    match payload:
        case {"error": str(message)}:
            return ToolResult.error(call.name, message)
        case None if call.goes_on is None:
            return ToolResult.error(call.name, "refused, or without a result")
        case _ if call.goes_on is False:
            return ToolResult.error(call.name, "refused")
        case _:
            return ToolResult.success(call.name, payload)


def progress_words(content: dict[str, JsonValue]) -> str:
    """How far a call is, as its tool reports it."""
    parts = []
    match content.get("progress"), content.get("loaded"), content.get("total"):
        case (int() | float()) as share, _, _:
            parts.append(f"{share:.0%}")
        case None, (int() | float()) as loaded, (int() | float()) as total:
            parts.append(f"{loaded:,g} of {total:,g}")
        case None, (int() | float()) as loaded, _:
            parts.append(f"{loaded:,g}")
        case _:
            pass
    if isinstance(said := content.get("message"), str):
        parts.append(printable(said))
    return f"  {' '.join(parts)}" if parts else ""
