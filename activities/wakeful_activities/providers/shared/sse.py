"""Decode server-sent events from bytes, however the network has split them. Pure: `http` reads the bytes.

Stricter than the standard about invalid UTF-8, and more lenient at the end: the last event needs no blank line after
it, because some servers do not send one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from wakeful.contract.limits import MESSAGE_BYTES

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Event(NamedTuple):
    name: str
    data: str


class SseError(ValueError):
    """The bytes are not a stream of events."""


class EventTooLong(SseError):
    """One event exceeds the limit."""


class SseDecoder:
    """Feed it bytes as they arrive; it yields each event with its last byte."""

    def __init__(self, limit: int = MESSAGE_BYTES) -> None:
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
                raise EventTooLong(f"one event has more than {self._limit:,} bytes")
            if piece.endswith((b"\r", b"\n")):
                yield from self._take_line()
        self._follows_cr = self._follows_cr or chunk.endswith(b"\r")

    def end(self) -> Iterator[Event]:
        """The last event, if only its blank line is missing. An incomplete line is dropped."""
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
            self._size = 0  # a server may keep the connection alive with comments forever

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
    # Raised outside the handler: Python's error, as its context, would quote the line, which may contain a key.
    raise SseError(problem)
