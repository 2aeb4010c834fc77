"""The connections of an HTTP server: how many there are, and how long one may take to say what it wants.

`http_serving` checks requests; here, there is none yet. It needs uvicorn, which comes with the extras that serve.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 30.0
"""How long the head of a request may take to arrive: its first line and its headers."""

CONNECTIONS = 1_000
"""How many connections a server has at most. It closes those beyond."""

_FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedConnection(H11Protocol):
    """A connection that is closed if a request does not begin in time, or if there are too many.

    uvicorn itself bounds only the pause between two requests, and only while nothing is sent.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            transport.write(_FULL)
            transport.close()
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        """Have a timer exactly while the head of a request is awaited. What arrives of it does not put it off."""
        if self.conn.their_state is not h11.IDLE:
            self._cancel()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _cancel(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
