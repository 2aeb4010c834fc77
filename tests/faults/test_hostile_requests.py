"""Hostile requests at the A2A server and at the MCP server: none gets in, and none costs the server anything.

`make faults` sends a thousand to each; `make test` a slice.
"""

import asyncio
import contextlib
import http.client
import io
import json
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client as TemporalClient

from tests.conftest import worker_settings
from tests.support.hostile_requests import Generator, Hostile, Protocol, Target, Victims
from tests.support.processes import Program, running
from tests.support.served_agents_app import registry
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful.a2a.task_ids import task_id
from wakeful.client.client import Client
from wakeful.contract.ids import a2a_context_id, a2a_thread_id, request_thread_id, ticket_id
from wakeful.contract.runs import Adapter, RunStatus
from wakeful.http_connections import HEAD_SECONDS
from wakeful.http_serving import BODY_SECONDS, REST_SECONDS
from wakeful.worker import running_worker

TOKEN = "s3cret"
CANARY = "canary-51c0"
AT_ONCE = 16
SLICE = 60
ANSWER_SECONDS = 45
SLOW_SECONDS = max(HEAD_SECONDS, BODY_SECONDS + REST_SECONDS) + 10
"""Within which a server has disconnected a client that is slow."""

BLOCKED_SECONDS = 3
"""How long a server may leave a client without an answer because of others; on a busy machine."""

MAX_GROWTH = 48 * 1024 * 1024
"""What the memory of a server may grow by after the first quarter of the requests."""

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}
CARD = "/.well-known/agent-card.json"


class World:
    """Threads of the application, of another tenant and of another user, which wait for an approval."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._name = uuid.uuid4().hex[:8]
        self.threads: list[str] = []
        self._before: dict[str, object] = {}

    async def open(self, protocol: Protocol) -> Victims:
        app = f"customer-{self._name}"
        await self._start(app)
        listed: list[str] = []
        if protocol == "a2a":
            theirs, own = a2a_thread_id(self._name, "acme"), a2a_thread_id(f"own-{self._name}", None)
            await self._start(theirs, tenant="acme", adapter=Adapter.A2A)
            await self._start(own, text="pay", adapter=Adapter.A2A)
            await self._client.send(own, f"of the staff: {CANARY}", message_id="staff", confirm=True)
            payroll = f"payroll-{self._name}"  # no thread at all
            await self._client.temporal.start_workflow("Payroll", id=payroll, task_queue=self._name)
            listed = [a2a_context_id(own)]
            suspended = {task_id(own, "message"): "1-1"}
            threads = [app, theirs]
        else:
            theirs = request_thread_id("payer", self._name, tenant="acme", user="bob")
            anns = request_thread_id("payer", self._name, tenant="beta", user="ann")
            own = request_thread_id("payer", self._name)
            await self._start(theirs, tenant="acme", user="bob")
            await self._start(anns, tenant="beta", user="ann")
            await self._start(own, text="pay")
            (call,) = (await self._client.status(own)).calls
            assert call.ticket is not None
            suspended = {own: ticket_id(own, call.ticket.suspension.id)}
            threads = [app, theirs, anns]
        self.threads = [*threads, own]
        self._before = await self.state()
        tasks = [task_id(thread, "message") for thread in threads]
        if protocol == "a2a":
            tasks += [task_id(own, "staff"), task_id(payroll, "message"), task_id(f"{self._name}-unknown", "message")]
        return Victims(threads, tasks, [app, self._name, *threads], suspended, listed)

    async def _start(self, thread_id: str, text: str = f"pay {CANARY}", **caller: object) -> None:
        given = {name: value for name, value in caller.items() if value is not None}
        await self._client.send(thread_id, text, agent_id="payer", message_id="message", **given)  # type: ignore[arg-type]
        await until_status(self._client, thread_id, RunStatus.WAITING)

    async def state(self) -> dict[str, object]:
        """What the threads have said and done."""
        return {
            thread: (
                (await self._client.status(thread)).pending,
                await self._client.transcript(thread),
                await self._client.queued(thread),
            )
            for thread in self.threads
        }

    async def is_unchanged(self) -> bool:
        return await self.state() == self._before


@contextlib.asynccontextmanager
async def served(
    protocol: Protocol, client: Client, *options: str, token: str | None
) -> AsyncIterator[tuple[Program, Target]]:
    """A server in a process of its own, as its command starts it."""
    where = ("--task-queue", client.task_queue, "--app", "tests.support.served_agents_app:registry", "--agent", "payer")
    command = ("a2a", "serve", "--port", "0") if protocol == "a2a" else ("mcp", "serve", "--http", "0")
    environ = {f"WAKEFUL_{protocol.upper()}_TOKEN": token or ""}
    address = client.temporal.service_client.config.target_host
    async with running(*command, *where, *options, address=address, environ=environ) as program:
        assert program.stdout is not None
        async with asyncio.timeout(BOUND_SECONDS):
            line = (await program.stdout.readline()).decode()
        port = int(line.split("http://127.0.0.1:")[1].partition(",")[0].partition("/")[0])
        yield program, Target(protocol, port, token, await _session(protocol, port, token))


async def _session(protocol: Protocol, port: int, token: str | None) -> dict[str, str]:
    """The headers that the protocol wants of every request."""
    if protocol == "a2a":
        return {"A2A-Version": "1.0"}
    headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers) as official:
        opened = await official.post(f"http://127.0.0.1:{port}/mcp", json=INITIALIZE)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await official.post(f"http://127.0.0.1:{port}/mcp", json=ready, headers=session)).status_code == 202
    return session


class Attack:
    """Sends requests, and notes how each was answered."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, str]] = Counter()
        self.let_in: list[str] = []
        self._held: list[Held] = []
        self._free = asyncio.Semaphore(AT_ONCE)

    async def send(self, requests: list[Hostile]) -> None:
        await asyncio.gather(*map(self._send, requests))

    async def _send(self, request: Hostile) -> None:
        async with self._free:
            reader, writer = await asyncio.open_connection("127.0.0.1", request.target.port)
            writer.write(request.wire)
            if request.held:
                self._held.append(Held(request, reader, writer, time.monotonic()))
                return
            answer, code = b"", "closed"
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    with contextlib.suppress(ConnectionError):
                        answer = await reader.read()
            except TimeoutError:
                code = "none"
            writer.close()
        self._note(request, answer[9:12].decode() or code, answer, is_let_in=request.refused and not is_refusal(answer))

    def _note(self, request: Hostile, code: str, answer: bytes, *, is_let_in: bool) -> None:
        self.answers[request.kind, code] += 1
        if is_let_in or code == "none" or code.startswith("5") or CANARY.encode() in answer:
            self.let_in.append(f"{request.kind}: {request.wire[:600]!r} was answered with {code}: {answer[:600]!r}")

    async def until_disconnected(self) -> None:
        """Wait for the server to end the connections of those who are slow."""
        await asyncio.gather(*map(self._until_disconnected, self._held))

    async def _until_disconnected(self, held: "Held") -> None:
        answer, code = b"", "disconnected"
        # Those who have not read are read here: what they were to be sent takes a moment.
        left = max(10.0, held.opened + SLOW_SECONDS - time.monotonic())
        try:
            async with asyncio.timeout(left):
                with contextlib.suppress(ConnectionError):
                    answer = await held.reader.read()
        except TimeoutError:
            code = "none"
        self._note(held.request, answer[9:12].decode() or code, answer, is_let_in=code == "none")

    def close(self) -> None:
        for held in self._held:
            held.writer.close()


@dataclass(frozen=True)
class Held:
    """A request that is slow, on its connection."""

    request: Hostile
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    opened: float


class _Answer:
    """Bytes as `http.client` reads them."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._answer)


def is_refusal(answer: bytes) -> bool:
    """A status of the client's fault, or an answer of JSON-RPC, with an error that says what is wrong.

    What is no request of the protocol (no HTTP, or another path) has a status alone.
    """
    if not answer:
        return False
    response = http.client.HTTPResponse(_Answer(answer))  # type: ignore[arg-type]  # all that it uses of a socket
    response.begin()
    if (response.status, response.headers.get_content_type()) in PLAIN:
        return True
    *_, said = response.read().decode().removeprefix("event: message").strip().rpartition("data: ")
    written = json.loads(said)
    if response.status != 200 and not 400 <= response.status < 500:
        return False
    error = written.get("error")
    is_named = isinstance(error, dict) and bool(error.get("message")) and "code" in error
    return is_named or (response.status == 200 and written.get("result", {}).get("isError") is True)


PLAIN = {(400, "text/plain"), (404, "text/plain"), (405, "text/plain")}


class Probe:
    """Asks a server again and again whether it answers, and notes the longest time that it did not."""

    def __init__(self, target: Target) -> None:
        self.longest = 0.0
        self._target = target

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        probing = asyncio.create_task(self._probe())
        try:
            yield
        finally:
            probing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await probing

    async def _probe(self) -> None:
        while True:
            began = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", self._target.port)
            # Without a token or for another host, it is refused: that is an answer, and costs nothing else.
            writer.write(b"GET /probe HTTP/1.1\r\nHost: probe.example\r\nConnection: close\r\n\r\n")
            await reader.read()
            writer.close()
            self.longest = max(self.longest, time.monotonic() - began)
            await asyncio.sleep(0.02)


def rss(program: Program) -> int:
    """The memory that a process has, in bytes."""
    return int(Path(f"/proc/{program.pid}/statm").read_text().split()[1]) * 4096


async def is_serving(target: Target) -> bool:
    """Whether a client that may come in is answered."""
    async with httpx.AsyncClient(timeout=BOUND_SECONDS) as official:
        if target.protocol == "a2a":
            return (await official.get(f"http://127.0.0.1:{target.port}{CARD}")).status_code == 200
        headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {target.token}"}
        listing = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        answer = await official.post(
            f"http://127.0.0.1:{target.port}/mcp",
            content=listing,
            headers={**headers, **target.headers, "content-type": "application/json"},
        )
        return answer.status_code == 200 and b"payer" in answer.content


@pytest.mark.parametrize("number", [SLICE, pytest.param(1000, marks=pytest.mark.faults)])
@pytest.mark.parametrize("protocol", ["a2a", "mcp"])
async def test_hostile_requests_do_not_get_in_and_cost_no_memory(
    temporal: TemporalClient, protocol: Protocol, number: int
) -> None:
    queue = f"hostile-{uuid.uuid4().hex[:8]}"
    client = Client(temporal, task_queue=queue)
    world, attack = World(client), Attack()
    of_beta = ("--tenant", "beta") if protocol == "a2a" else ("--tenant", "beta", "--user", "bob")
    async with (
        running_worker(temporal, registry, worker_settings(task_queue=queue)),
        served(protocol, client, token=None) as (trusting, trusted),
        served(protocol, client, *of_beta, token=TOKEN) as (guarding, guarded),
    ):
        victims = await world.open(protocol)
        requests = Generator(trusted, guarded, victims, seed=number).requests(number)
        probes = [Probe(each) for each in (trusted, guarded)]
        async with probes[0].running(), probes[1].running():
            await attack.send(requests[: number // 4])
            programs = (trusting, guarding)
            before = [rss(each) for each in programs]
            await attack.send(requests[number // 4 :])
        after = [rss(each) for each in programs]
        assert [await is_serving(each) for each in (trusted, guarded)] == [True, True]
        if number > SLICE:
            await attack.until_disconnected()
        attack.close()
        codes = Counter[str]()
        for (_, code), count in attack.answers.items():
            codes[code] += count
        print(f"\n{protocol}: {number} requests by answer: {dict(sorted(codes.items()))}")
        for kind in sorted({kind for kind, _ in attack.answers}):
            print(f"  {kind}: { {code: count for (of, code), count in sorted(attack.answers.items()) if of == kind} }")
        print(
            "  memory in MB:",
            ", ".join(f"{was / 1e6:.0f} -> {now / 1e6:.0f}" for was, now in zip(before, after, strict=True)),
        )
        print("  longest without an answer:", ", ".join(f"{probe.longest:.2f} s" for probe in probes))
        assert attack.let_in == [], "\n".join(attack.let_in[:20])
        assert await world.is_unchanged()
        assert max(probe.longest for probe in probes) < BLOCKED_SECONDS
        assert max(now - was for was, now in zip(before, after, strict=True)) < MAX_GROWTH
        for thread in world.threads:
            await client.cancel(thread)
