"""Serve an ASGI application over HTTP: listen on an address, check requests, stop when the program says so.

The A2A server and the MCP server share it. uvicorn comes with their extras, so it is imported only to serve.
"""

import asyncio
import contextlib
import hmac
import ipaddress
import json
import re
import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.json_values import ValueCount

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

GRACE_SECONDS = 3
"""How long requests may continue when the server stops: a stream could last for days, and runs continue without it."""

BODY_BYTES = 4 * 1024 * 1024
"""The largest body that a request may have: twice what a message may have, as JSON escapes it."""

BODY_SECONDS = 30.0
"""How long a body may take to arrive."""

BODY_VALUES = 10_000
"""The values that the JSON of a body may have: what checks an A2A request takes up to 0.1 ms for each, however short,
and answers no other request meanwhile."""

REST_BYTES = 4 * BODY_BYTES
REST_SECONDS = 2.0
"""How much is read of the body of a request that is refused, and for how long."""

STALLED_MILLISECONDS = 60_000
"""How long a client may leave what the server has sent unread. Then the kernel closes the connection."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError([f"cannot listen on {host!r}, port {port}: {error.strerror or error}"]) from error
    if (stalled := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:  # only Linux has it
        listening.setsockopt(socket.IPPROTO_TCP, stalled, STALLED_MILLISECONDS)
    return listening


async def serve_app(app: "ASGIApp", listening: socket.socket, *, until: asyncio.Event) -> None:
    """Serve until the event is set."""
    import uvicorn

    from wakeful.http_connections import BoundedConnection

    # h11 bounds the headers of a request; uvicorn's other parser, which it prefers if it is installed, does not.
    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",  # a connection that is upgraded is none of those that are bounded
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = uvicorn.Server(config)

    async def stop() -> None:
        await until.wait()
        server.should_exit = True

    stopping = asyncio.create_task(stop())
    try:
        # Not `serve`: that would take the signals, which are the program's.
        await server._serve(sockets=[listening])
    finally:
        stopping.cancel()


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def has_token(headers: Iterable[tuple[bytes, bytes]], token: bytes) -> bool:
    """Whether the headers of a request have this bearer token."""
    written = next((bytes(value) for name, value in headers if name == b"authorization"), b"")
    scheme, _, given = written.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


@dataclass(frozen=True)
class Refusal:
    """Why a server does not answer a request: an HTTP status, and a sentence for the client."""

    status: int
    message: str


_STATUSES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}


async def refuse(send: "Send", refusal: Refusal, *, unread: "Receive | None") -> None:
    """Answer a request with a refusal, as JSON, and close its connection.

    Args:
        unread: reads the rest of the request's body, if there is any: a client that still sends it may else see its
            connection reset, and not the answer.
    """
    status = _STATUSES.get(refusal.status, "INVALID_ARGUMENT")
    error = {"code": refusal.status, "status": status, "message": refusal.message}
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": unread is not None})
    if unread is not None:
        await _drop_rest(unread)
        await send({"type": "http.response.body"})


async def _drop_rest(receive: "Receive") -> None:
    left = REST_BYTES
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REST_SECONDS):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body", False):  # it is whole, or the client has gone
                    return


class BoundedBodies:
    """An ASGI application that reads the body of a request, within limits, before another application gets it.

    Args:
        limit: the bytes that a body may have.
        values: the values that its JSON may have.
        seconds: how long it may take to arrive.
    """

    def __init__(
        self, app: "ASGIApp", *, limit: int = BODY_BYTES, values: int = BODY_VALUES, seconds: float = BODY_SECONDS
    ) -> None:
        self._app = app
        self._limit = limit
        self._values = values
        self._seconds = seconds

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_whole = False

        async def receive_chunk() -> "Message":
            nonlocal is_whole
            message = await receive()
            is_whole = not message.get("more_body", False)
            return message

        read = await self._read(scope, receive_chunk)
        if isinstance(read, Refusal):
            await refuse(send, read, unread=None if is_whole else receive)
            return
        messages = [read]

        async def receive_read() -> "Message":
            return messages.pop() if messages else await receive()

        await self._app(scope, receive_read, send)

    async def _read(self, scope: "Scope", receive: "Receive") -> "Message | Refusal":
        """The whole body as one message, that the client has disconnected, or why the request is refused."""
        if any(name == b"content-length" and self._is_too_long(value) for name, value in scope["headers"]):
            return self._too_large
        body, counted = bytearray(), ValueCount()
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return message
                    body += (chunk := message.get("body", b""))
                    if len(body) > self._limit:
                        return self._too_large
                    if counted.add(chunk) > self._values:
                        return Refusal(413, f"the body of the request has more than {self._values:,} JSON values")
                    if not message.get("more_body", False):
                        return {"type": "http.request", "body": bytes(body), "more_body": False}
        except TimeoutError:
            return Refusal(408, f"the body of the request took longer than {self._seconds:g} s to arrive")

    def _is_too_long(self, length: bytes) -> bool:
        digits = length.lstrip(b"0")
        return len(digits) > 18 or (digits.isdigit() and int(digits) > self._limit)

    @property
    def _too_large(self) -> Refusal:
        return Refusal(413, f"the body of the request is larger than {self._limit:,} bytes")


def refusal_of_page(headers: Collection[tuple[bytes, bytes]], hosts: Collection[str]) -> Refusal | None:
    """Refuse a request that a web page may have made: one for a host, or of an origin, that is not the server's own.

    A browser on this machine reaches a server that trusts its own machine, for every page that it shows. Of a page
    whose name stands for this machine (DNS rebinding), the `Host` is that name; of any other page, the `Origin` is.

    Args:
        hosts: names, or `name:port`, by which clients reach the server, beside this machine's loopback names.
    """
    of_host = [value for name, value in headers if name == b"host"]
    if len(of_host) != 1 or not is_known_host(of_host[0].decode("latin-1"), hosts):
        named = ", ".join(repr(value.decode("latin-1")) for value in of_host) or "none"
        return Refusal(421, f"this server does not answer for the host {named[:200]}")
    for name, value in headers:
        scheme, _, host = value.decode("latin-1").partition("://")
        if name == b"origin" and not (scheme in ("http", "https") and is_known_host(host, hosts)):
            return Refusal(403, f"this server does not answer pages of the origin {value.decode('latin-1')[:200]!r}")
    return None


_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")


def is_known_host(written: str, hosts: Collection[str]) -> bool:
    """Whether a host, perhaps with a port, is this machine's loopback or one of these names."""
    parsed = _HOST.fullmatch(written.lower())
    if parsed is None:
        return False
    name = parsed["name"]
    known = {host.lower() for host in hosts}
    return is_loopback(name.strip("[]")) or name in known or f"{name}:{parsed['port']}" in known


def in_url(host: str) -> str:
    """The host as a URL names it: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host
