"""What the fake provider was asked: the request as it came, and what became of its connection."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Format(StrEnum):
    CHAT = "chat"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


PATHS = {
    "/v1/chat/completions": Format.CHAT,
    "/v1/responses": Format.RESPONSES,
    "/v1/messages": Format.ANTHROPIC,
}


@dataclass(frozen=True)
class Turn:
    """One entry of the conversation, in any format. `text` is its words only."""

    role: str
    text: str


@dataclass(eq=False)
class Asked:
    format: Format
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    number: int
    """The how manieth request of this server, from 1."""
    at: float = field(default_factory=time.monotonic)
    sent_at: list[float] = field(default_factory=list)
    """When each delta went out, on the clock of `time.monotonic`."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """The other side has closed the connection this request came on."""
    closed_at: float | None = None
    """When it did, on the clock of `time.monotonic`."""

    @property
    def request_id(self) -> str:
        """The id the provider gives this request, in a header of every reply."""
        return f"req_{self.number}"

    @property
    def streamed(self) -> bool:
        return self.body.get("stream") is True

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The conversation without its system prompt, calls and reasoning."""
        entries = self.body.get("input" if self.format is Format.RESPONSES else "messages")
        if isinstance(entries, str):
            return (Turn("user", entries),)
        return tuple(Turn(entry["role"], _words(entry.get("content"))) for entry in entries or () if "role" in entry)

    @property
    def deltas(self) -> int:
        """How many have gone out so far."""
        return len(self.sent_at)

    def sent_delta(self) -> None:
        self.sent_at.append(time.monotonic())

    def lost(self) -> None:
        """The other side closed. Only the first time counts: later requests may have used the connection."""
        if self.closed_at is None:
            self.closed_at = time.monotonic()
        self.closed.set()


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
