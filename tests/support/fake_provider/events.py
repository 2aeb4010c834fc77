"""The events of one streamed answer, before they are encoded, and the faults between them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from tests.support.fake_provider.script import Fault, Moment, Writing

Part = Literal["frame", "delta", "stop", "end"]
Json = dict[str, JsonValue]


@dataclass(frozen=True)
class Event:
    data: Json | str
    name: str | None = None
    part: Part = "frame"

    def encoded(self, writing: Writing) -> bytes:
        data = self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False)
        lines = [": keepalive", ""] if writing.keepalives else []
        lines += [f"event: {self.name}"] if self.name else []
        return "".join(line + writing.line_end for line in (*lines, f"data: {data}", "")).encode()


@dataclass(frozen=True)
class Bytes:
    """A piece of a body that is no stream of events."""

    data: bytes
    part: Part

    def encoded(self, writing: Writing) -> bytes:
        return self.data


class Headers:
    """The position of the reply's headers among its events."""


def slices(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def halves(body: Json) -> list[Bytes]:
    """A body that is not streamed, in halves, so that it too can be interrupted."""
    whole = json.dumps(body, ensure_ascii=False).encode()
    middle = len(whole) // 2
    return [Bytes(whole[:middle], "delta"), Bytes(whole[middle:], "end")]


def scheduled(events: Sequence[Event | Bytes], faults: Sequence[Fault]) -> Iterator[Event | Bytes | Headers | Fault]:
    """Everything in the order it happens.

    Raises:
        ValueError: a fault waits for more deltas than there are, so it would never happen.
    """
    waiting = list(faults)

    def due(*moments: Moment) -> list[Fault]:
        now = [fault for fault in waiting if fault.after in moments]
        waiting[:] = [fault for fault in waiting if fault not in now]
        return now

    yield from due("request")
    yield Headers()
    yield from due("headers")
    deltas = 0
    for event in events:
        match event.part:
            case "frame":
                pass
            case "delta":
                yield from due(0)
            case "stop":
                yield from due("content")
            case "end":
                yield from due("content", "stop")
        yield event
        if event.part == "delta":
            deltas += 1
            yield from due(deltas)
    if waiting:
        raise ValueError(f"the answer has {deltas} deltas, so these faults never happen: {waiting}")
