"""A request to the fake provider, and the state of its connection."""

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
    "/openai/v1/chat/completions": Format.CHAT,
    "/openai/v1/responses": Format.RESPONSES,
    "/openai/responses": Format.RESPONSES,
    "/openai/deployments/test-model/chat/completions": Format.CHAT,
}
"""The paths of OpenAI and Anthropic, and those of Azure."""


@dataclass(frozen=True)
class Turn:
    """One entry of the conversation, in any format; only its text."""

    role: str
    text: str


@dataclass(eq=False)
class Asked:
    format: Format
    path: str
    query: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    number: int
    """Counts the requests of this server, from 1."""
    at: float = field(default_factory=time.monotonic)
    sent_at: list[float] = field(default_factory=list)
    """When each delta was sent, on the clock of `time.monotonic`."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """The client has closed the connection of this request."""
    closed_at: float | None = None
    """When it was closed, on the clock of `time.monotonic`."""

    @property
    def request_id(self) -> str:
        """The provider's id of this request, in a header of every reply but a raw one."""
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
        """How many were sent so far."""
        return len(self.sent_at)

    def sent_delta(self) -> None:
        self.sent_at.append(time.monotonic())

    def lost(self) -> None:
        """The client has closed the connection. Only the first time counts: later requests may have used it."""
        if self.closed_at is None:
            self.closed_at = time.monotonic()
        self.closed.set()


def _words(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
