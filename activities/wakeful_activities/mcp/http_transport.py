"""Streamable HTTP, over a client that reports failures as answers.

The SDK runs all requests of a connection in one task group: an error that one of them raises ends the others, too, and
no one can tell whether it was sent. So errors of the network become JSON-RPC errors of their own request, with codes
that say what is known.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from wakeful.contract.limits import MESSAGE_BYTES
from wakeful_activities.bounded_http import IDENTITY, BoundedBody, TooLong, check_encoding
from wakeful_activities.mcp.stdio_transport import LastWords

NOT_SENT = -33_001
"""The code of a request that the server has not handled: it was not reached, or refused to handle it."""
LOST = -33_002
"""The code of a request whose answer was lost."""
NEW_SESSION = -33_003
"""The code of a request that was not handled because the server does not know the session, or the credentials."""

CONNECT_SECONDS = 10.0
SHORTEST_READ_SECONDS = 300.0

_REFUSED = {
    401: (NEW_SESSION, "it refused the credentials (HTTP 401): check the token"),
    403: (NEW_SESSION, "it refused the credentials (HTTP 403): check the token"),
    429: (NOT_SENT, "it is overloaded (HTTP 429)"),
    502: (LOST, "a proxy lost the connection to it (HTTP 502)"),
    503: (NOT_SENT, "it is not available (HTTP 503)"),
    504: (LOST, "a proxy gave up waiting for it (HTTP 504)"),
}


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], *, call_seconds: float, last_words: LastWords
) -> AsyncIterator[TransportStreams]:
    """A connection to the endpoint.

    Args:
        call_seconds: how long a call may take, during which the server may be silent.
    """
    limits = httpx2.Timeout(CONNECT_SECONDS, read=max(SHORTEST_READ_SECONDS, 2 * call_seconds))
    # Our own limit ends an answer before the SDK's, which would not tell the reason.
    transport = _Reporting(httpx2.AsyncHTTPTransport(), last_words)
    async with (
        httpx2.AsyncClient(headers={**IDENTITY, **headers}, timeout=limits, transport=transport) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=2 * MESSAGE_BYTES) as streams,
    ):
        yield streams


class _Body(BoundedBody, httpx2.AsyncByteStream):
    pass


class _Reporting(httpx2.AsyncBaseTransport):
    """Answers a request that failed with a JSON-RPC error, and bounds what is read of any answer."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, last_words: LastWords) -> None:
        self._inner = inner
        self._last_words = last_words

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":  # the SDK itself handles what these raise
            return await self._bounded(request)
        try:
            response = await self._bounded(request)
            if response.headers.get("content-type", "").startswith("application/json"):
                response = await _read(response)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError) as error:
            return _failed(NOT_SENT, f"it cannot be reached: {error or type(error).__name__}")
        except httpx2.TransportError as error:
            return _failed(LOST, f"the connection was lost: {error or type(error).__name__}")
        if (refused := _REFUSED.get(response.status_code)) is not None:
            await response.aclose()
            return _failed(*refused)
        if response.status_code == 404 and MCP_SESSION_ID in request.headers:
            await response.aclose()
            return _failed(NEW_SESSION, "it does not know the session: it was started again")
        return response

    async def _bounded(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        try:
            check_encoding(response.headers)
        except TooLong as error:
            await response.stream.aclose()
            raise httpx2.RemoteProtocolError(f"the answer is not read: {error}") from None
        response.stream = _Body(response.stream, response.headers, self._failure)
        return response

    def _failure(self, problem: str) -> Exception:
        self._last_words.problem = problem  # the SDK tells a call only that its stream has ended
        return httpx2.RemoteProtocolError(problem)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(response: httpx2.Response) -> httpx2.Response:
    """The response with its content, so that nothing can fail later."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        content = b"".join([chunk async for chunk in response.stream])
    finally:
        await response.aclose()
    return httpx2.Response(response.status_code, headers=response.headers, stream=httpx2.ByteStream(content))


def _failed(code: int, message: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(500, headers={"content-type": "application/json"}, content=json.dumps(body))
