"""The fake provider: it serves requests on loopback, replies as scripted, and keeps the requests."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, assert_never

from tests.support.fake_provider import anthropic, chat, responses
from tests.support.fake_provider.asked import PATHS, Asked, Format
from tests.support.fake_provider.errors import error_event, status_body, status_headers
from tests.support.fake_provider.events import Bytes, Event, Headers, halves, scheduled
from tests.support.fake_provider.script import (
    Answer,
    Cut,
    End,
    ErrorEvent,
    Fault,
    Hold,
    Inject,
    Raw,
    Reply,
    Reset,
    Stall,
    Status,
)
from tests.support.fake_provider.wire import Outgoing, Request, next_byte, read_request

Step = Reply | Callable[[Asked], Reply]
Check = Callable[[Asked], str | None]
Moments = list[Event | Bytes | Headers | Fault]
BOUND_SECONDS = 10
RUN_OUT = Status(500, "server", "the script of the fake provider has run out")
FORMATS = {Format.CHAT: chat, Format.RESPONSES: responses, Format.ANTHROPIC: anthropic}


class FakeProvider:
    def __init__(self, check: Check) -> None:
        self.port = 0
        self.asked: list[Asked] = []
        self.violations: list[str] = []
        """What was wrong with requests, or with the script."""
        self._steps: deque[Step] = deque()
        self._otherwise: Step = RUN_OUT
        self._check = check
        self._news = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def anthropic_url(self) -> str:
        return f"http://{self.host}"

    @property
    def chat_url(self) -> str:
        return f"{self.anthropic_url}/v1"

    @property
    def responses_url(self) -> str:
        return f"{self.anthropic_url}/v1"

    def will(self, *steps: Step) -> None:
        """Reply to the next requests like this, one each."""
        self._steps.extend(steps)

    def always(self, step: Step) -> None:
        """Reply like this whenever the script is empty."""
        self._otherwise = step

    def forget(self) -> None:
        """Clear the requests and the script, for the next test."""
        self.asked.clear()
        self.violations.clear()
        self._steps.clear()
        self._otherwise = RUN_OUT

    async def request(self, number: int = 1) -> Asked:
        """Wait for the request with this number, from 1."""
        await self.until(lambda: len(self.asked) >= number)
        return self.asked[number - 1]

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait, with a bound, for a condition that a request, a delta or a close fulfils."""
        async with asyncio.timeout(BOUND_SECONDS):
            while not met():
                await self._news.wait()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._converse(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def hang_up(self) -> None:
        for connection in (open_connections := list(self._connections)):
            connection.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Nothing may wait in our buffer: an RST would throw away deltas that count as sent.
        writer.transport.set_write_buffer_limits(0)
        here: list[Asked] = []
        peer = asyncio.create_task(next_byte(reader))
        try:
            while first := await peer:
                request = await read_request(first, reader)
                peer = asyncio.create_task(next_byte(reader))
                if await self._served(request, here, writer, peer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            peer.cancel()
            writer.close()
        for asked in here:
            asked.lost()
        self._tell()

    async def _served(
        self, request: Request, here: list[Asked], writer: asyncio.StreamWriter, peer: asyncio.Task[bytes]
    ) -> bool:
        """Reply; whether that closed the connection. The reply ends early if the client closes it."""
        out = Outgoing(writer)
        asked = self._understood(request)
        if asked is None:
            await out.whole(404, {}, b"")
            return False
        here.append(asked)
        reply = asyncio.create_task(self._reply(asked, out))
        try:
            await asyncio.wait({reply, peer}, return_when=asyncio.FIRST_COMPLETED)
            if reply.done() or peer.result():
                with suppress(ConnectionError):
                    await reply
        finally:
            reply.cancel()
        return out.broken

    def _understood(self, request: Request) -> Asked | None:
        format = PATHS.get(request.path)
        if format is None or request.method != "POST":
            self.violations.append(f"there is no {request.method} {request.path}")
            return None
        asked = Asked(format, request.path, request.query, request.headers, _object(request.body), len(self.asked) + 1)
        self.asked.append(asked)
        self._tell()
        return asked

    async def _reply(self, asked: Asked, out: Outgoing) -> None:
        request_id = {"request-id" if asked.format is Format.ANTHROPIC else "x-request-id": asked.request_id}
        reply, moments = self._chosen(asked)
        match reply:
            case Answer():
                kind = "text/event-stream; charset=utf-8" if asked.streamed else "application/json"
                out.prepare({"Content-Type": kind, **request_id, **reply.headers}, reply.writing)
                await self._play(reply, moments, asked, out)
            case Status(code=code):
                headers = {"Content-Type": "application/json", **request_id, **status_headers(reply)}
                await out.whole(code, headers, json.dumps(status_body(reply, asked)).encode())
            case Raw():
                await out.raw(reply)
            case _:
                assert_never(reply)

    def _chosen(self, asked: Asked) -> tuple[Reply, Moments]:
        """The scripted reply, unless the request or the script is invalid: then an error, and a violation."""
        if problem := self._check(asked):
            self.violations.append(problem)
            return Status(400, "invalid", problem), []
        step = self._steps.popleft() if self._steps else self._otherwise
        try:
            reply = step(asked) if callable(step) else step
            return reply, _moments(reply, asked) if isinstance(reply, Answer) else []
        except Exception as error:
            self.violations.append(f"the script cannot answer request {asked.number}: {error!r}")
            return Status(500, "server", self.violations[-1]), []

    async def _play(self, answer: Answer, moments: Moments, asked: Asked, out: Outgoing) -> None:
        sent = 0
        for moment in moments:
            match moment:
                case Headers():
                    await out.head()
                case Event() | Bytes():
                    await out.send(moment.encoded(answer.writing))
                    sent += 1
                    if moment.part == "delta":
                        asked.sent_delta()
                        self._tell()
                        await asyncio.sleep(answer.pause)
                case ErrorEvent():
                    await out.send(error_event(moment, answer, asked, sequence=sent).encoded(answer.writing))
                    return await out.finish()
                case _:
                    if await _broke(moment, out):
                        return None
        return await out.finish()

    def _tell(self) -> None:
        self._news.set()
        self._news.clear()


@asynccontextmanager
async def fake_provider(*, port: int = 0, validate: bool = True) -> AsyncIterator[FakeProvider]:
    """A fake provider on loopback. `validate` checks each request with the official SDKs' own types."""
    provider = FakeProvider(_official() if validate else lambda _: None)
    server = await asyncio.start_server(provider.connected, "127.0.0.1", port)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        await provider.hang_up()
        await server.wait_closed()


def _official() -> Check:
    # Imported only here: the SDKs take seconds to import, and benchmarks do not need them.
    from tests.support.fake_provider import official

    return official.problem


def _object(body: bytes) -> dict[str, Any]:
    """The request's JSON object; an empty one, which the check rejects, if it is something else."""
    try:
        read = json.loads(body)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _moments(answer: Answer, asked: Asked) -> Moments:
    wire = FORMATS[asked.format]
    if asked.streamed:
        return list(scheduled(list(wire.events(answer, asked)), answer.faults))
    if any(isinstance(fault, ErrorEvent) for fault in answer.faults):
        raise ValueError("an error event needs a request that is streamed")
    middle = [
        replace(fault, after=1) if isinstance(fault.after, int) and fault.after > 1 else fault
        for fault in answer.faults
    ]
    return list(scheduled(halves(wire.body(answer, asked)), middle))


async def _broke(fault: Stall | Reset | Cut | End | Inject | Hold, out: Outgoing) -> bool:
    """Let the fault happen; whether it ends the reply."""
    match fault:
        case Stall():
            await out.flush()
            # Cancelled when the client closes the connection.
            await asyncio.Event().wait()
        case Reset():
            await out.reset()
        case Cut():
            await out.cut()
        case End():
            await out.finish()
        case Inject(raw=raw):
            await out.send(raw)
            return False
        case Hold(until=until):
            await out.flush()
            await until.wait()
            return False
        case _:
            assert_never(fault)
    return True
