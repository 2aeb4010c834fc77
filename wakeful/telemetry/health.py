"""A worker's health over HTTP, for the probes of a supervisor such as Kubernetes.

`/health/live` says whether the process should live on, `/health/ready` whether it does its work, and `/health` shows
every component. The worker's event loop answers: if user code blocks the loop, there is no answer, and the probe fails.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue

from wakeful.contract.errors import ConfigurationError

REQUEST_SECONDS = 5.0
"""How long a request may take to arrive, and to be answered."""

LOCALHOST = "127.0.0.1"


class HealthPath(StrEnum):
    ALL = "/health"
    LIVE = "/health/live"
    READY = "/health/ready"


@dataclass(frozen=True)
class Component:
    """A part of a worker that can fail.

    Args:
        is_vital: the process has to be replaced if it fails.
    """

    is_ok: bool
    details: Mapping[str, JsonValue] = field(default_factory=dict)
    problem: str | None = None
    is_vital: bool = False

    @property
    def json(self) -> dict[str, JsonValue]:
        problem = {} if self.problem is None else {"problem": self.problem}
        return {"status": "ok" if self.is_ok else "failing", **problem, **self.details}


Components = Mapping[str, Component]


@dataclass(frozen=True)
class HealthChecks:
    """The components of a worker: those that it knows itself, and those that it has to ask Temporal about."""

    own: Callable[[], Components]
    remote: Callable[[], Awaitable[Components]]


@contextlib.asynccontextmanager
async def serving_health(port: int | None, checks: HealthChecks, *, host: str = LOCALHOST) -> AsyncIterator[None]:
    """Answer GET on the paths of `HealthPath` with 200 or 503 and JSON, while the body runs.

    Raises:
        ConfigurationError: the host or the port cannot be used.
    """
    if port is None:
        yield
        return

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _response(request, checks))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(answer, host=host, port=port)
    except OSError as error:
        raise ConfigurationError([f"health on {host}, port {port}: {error.strerror}; choose another one"]) from error
    async with server:
        yield


async def _response(request: bytes, checks: HealthChecks) -> bytes:
    method, _, rest = request.partition(b" ")
    target = rest.partition(b" ")[0].decode("latin-1").partition("?")[0]
    path = next((path for path in HealthPath if target.rstrip("/") == path.value), None)
    if path is None:
        return _http("404 Not Found", {"error": f"no such page; there are {', '.join(HealthPath)}"})
    if method not in (b"GET", b"HEAD"):
        return _http("405 Method Not Allowed", {"error": "use GET"})
    components = {**checks.own(), **({} if path is HealthPath.LIVE else await checks.remote())}
    failing = [each for each in components.values() if not each.is_ok]
    is_ok = not (any(each.is_vital for each in failing) if path is HealthPath.LIVE else failing)
    answer: dict[str, JsonValue] = {"status": "ok" if is_ok else "failing"}
    if path is HealthPath.ALL or not is_ok:
        answer["components"] = {name: each.json for name, each in components.items()}
    response = _http("200 OK" if is_ok else "503 Service Unavailable", answer)
    return response.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == b"HEAD" else response


def _http(status: str, answer: Mapping[str, JsonValue]) -> bytes:
    body = json.dumps(answer).encode()
    headers = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n".encode() + body
