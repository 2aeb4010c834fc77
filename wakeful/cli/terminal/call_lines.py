"""A tool call on a terminal: while the model writes it, while it runs, and with its result."""

import time
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.cli.terminal.text import printable, short_call
from wakeful.contract.events import ToolCallOutcome, ToolCallResumed
from wakeful.contract.tools import ToolResult


@dataclass(frozen=True)
class ShownCall:
    """A tool call while it is on the screen."""

    name: str
    arguments: JsonValue = None
    partial: str = ""
    """The part of the arguments that the model has written, until they are complete."""
    at: int = 0
    """When it started, in milliseconds since 1970; 0 until that is in history."""
    seen: float = field(default_factory=time.monotonic)
    progress: str = ""

    @property
    def text(self) -> str:
        return printable(f"{self.name}({self.partial}") if self.partial else short_call(self.name, self.arguments)


@dataclass(frozen=True)
class ShownResult:
    """The result of a call, which `/last` prints in full."""

    call: str
    result: ToolResult


def resumed_result(call: ShownCall, event: ToolCallResumed) -> ToolResult:
    """The result of a call after its decision."""
    if event.outcome is ToolCallOutcome.FAILED:
        return ToolResult.error(call.name, event.text or "failed")
    return ToolResult.success(call.name, event.result, event.text)


def progress_text(content: dict[str, JsonValue]) -> str:
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
    if isinstance(message := content.get("message"), str):
        parts.append(printable(message))
    return f"  {' '.join(parts)}" if parts else ""
