"""Bound the answers of HTTP peers while they arrive. For `httpx` and `httpx2` alike: bytes go in, the same come out.

A peer can send without end, in one line or in many, and a few compressed bytes can be gigabytes. So requests ask for
answers that are not compressed, others are refused, and reading stops at the limit.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

import httpx

from wakeful.contract.json_values import ValueCount
from wakeful.contract.limits import MESSAGE_BYTES

IDENTITY = {"Accept-Encoding": "identity"}
"""The header that asks for an answer which is not compressed."""


class TooLong(Exception):
    """An answer exceeds a limit, which the message names."""


def check_encoding(headers: Mapping[str, str]) -> None:
    """Raise `TooLong` if the answer is compressed: its size is not known before it is in memory."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise TooLong(f"it is compressed ({encoding!r}), although the request asks for 'identity'")


async def up_to(limit: int, chunks: AsyncIterator[bytes]) -> bytes:
    """The first bytes, at most `limit`; the rest is not read."""
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        if len(content) >= limit:
            break
    return bytes(content[:limit])


async def bounded(
    chunks: AsyncIterator[bytes], *, message: int, is_stream: bool, values: int | None = None
) -> AsyncIterator[bytes]:
    """The chunks of an answer, until one message exceeds its limit.

    Args:
        message: bytes of an event or a line of a stream; of another answer, its bytes as a whole.
        values: values of the JSON of the same, if they are limited.

    Raises:
        TooLong: it does.
    """
    size, before, counted = 0, b"", ValueCount()
    async for chunk in chunks:
        # An event ends with an empty line, which two chunks may share.
        seen = before + chunk
        last = max(seen.rfind(end) for end in _EVENT_ENDS) if is_stream else -1
        size = len(seen) - last if last >= 0 else size + len(chunk)
        before = seen[-3:]
        if size > message:
            raise TooLong(f"{'one event' if is_stream else 'it'} has more than {message:,} bytes")
        if values is not None:
            if counted.add(chunk) > values:  # with those of other events in the same chunk
                raise TooLong(f"{'one event' if is_stream else 'it'} has more than {values:,} JSON values")
            if last >= 0:
                counted = ValueCount()
                counted.add(seen[last:])
        yield chunk


_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class ByteStream(Protocol):
    """The stream of a response, of `httpx` or `httpx2`."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class BoundedBody:
    """The body of a response, until one of its messages is too long.

    Args:
        failure: the error of the HTTP library that says so.
        values: how many values the JSON of a message may have, if they are limited.
    """

    def __init__(
        self,
        inner: ByteStream,
        headers: Mapping[str, str],
        failure: Callable[[str], Exception],
        *,
        values: int | None = None,
    ) -> None:
        self._values = values
        self._inner = inner
        self._is_stream = headers.get("content-type", "").lower().startswith("text/event-stream")
        self._failure = failure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            chunks = aiter(self._inner)
            async for chunk in bounded(chunks, message=MESSAGE_BYTES, is_stream=self._is_stream, values=self._values):
                yield chunk
        except TooLong as error:
            raise self._failure(f"the answer is not read further: {error}") from None

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Body(BoundedBody, httpx.AsyncByteStream):
    pass


async def bound_response(response: httpx.Response, *, values: int | None = None) -> None:
    """Bound what is read of a response: a hook of an `httpx` client."""

    def failure(message: str) -> Exception:
        return httpx.RemoteProtocolError(message, request=response.request)

    try:
        check_encoding(response.headers)
    except TooLong as error:
        raise failure(f"the answer is not read: {error}") from None
    assert isinstance(response.stream, httpx.AsyncByteStream)
    response.stream = _Body(response.stream, response.headers, failure, values=values)
