"""Server-sent events out of bytes, however the network has cut them. Pure: who reads the bytes is `http`'s business.

Stricter than the standard about what cannot be text, and kinder at the end: an event whose lines are all there counts
although its blank line never came, because some servers do not send it after their last word.
"""

from collections.abc import Iterator
from typing import NamedTuple

EVENT_LIMIT = 16 * 1024 * 1024
"""Bytes of one event: many times the longest answer, and few enough that a server gone mad cannot fill the memory."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Event(NamedTuple):
    name: str
    data: str


class SseError(ValueError):
    """What came is not a stream of events."""


class SseDecoder:
    """Feed it bytes as they come; it gives each event as soon as its last byte is there."""

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._size = 0
        self._line: list[bytes] = []
        self._is_first = True
        self._follows_cr = False
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that `chunk` completes.

        Raises:
            SseError: a line is not UTF-8, or an event is too long.
        """
        if self._follows_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._follows_cr = False
        for piece in chunk.splitlines(keepends=True):
            self._line.append(piece)
            self._size += len(piece)
            if self._size > self._limit:
                raise SseError(f"an event is longer than {self._limit:,} bytes")
            if piece.endswith((b"\r", b"\n")):
                yield from self._take_line()
        self._follows_cr = self._follows_cr or chunk.endswith(b"\r")

    def end(self) -> Iterator[Event]:
        """The event that lacks nothing but its blank line. Half a line is half an event, and is dropped."""
        yield from self._dispatch()

    def _take_line(self) -> Iterator[Event]:
        line = b"".join(self._line).rstrip(b"\r\n")
        self._line.clear()
        if self._is_first:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._is_first = False
        if not line:
            yield from self._dispatch()
        elif not line.startswith(b":"):
            self._take_field(line)
        elif not self._data:
            self._size = 0  # a server may keep a connection alive with comments for ever

    def _take_field(self, line: bytes) -> None:
        name, _, value = _decoded(line).partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value

    def _dispatch(self) -> Iterator[Event]:
        name, data = self._name, self._data
        self._name, self._data, self._size = "", [], 0
        if data:
            yield Event(name, "\n".join(data))


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        problem = f"a line is not UTF-8: {error.reason} at byte {error.start}"
    # Raised out here: Python's own error holds the line, which may hold a key, and would come along as its context.
    raise SseError(problem)
