"""Proof of erasure: after `wakeful delete`, no row of the server's database contains what a thread said.

The threads say a canary everywhere: in messages, titles, tool arguments and results, state, profiles, mail between
agents, sub-agents, background tasks, archives and stored payloads. The database is read as bytes, after `VACUUM`, and
with everything unpacked that is compressed or encoded in it.
"""

import base64
import json
import lzma
import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes import wakeful
from tests.support.waiting import until
from wakeful import (
    Agent,
    HistoryBudget,
    ModelRequest,
    ModelResponse,
    ProfileKey,
    Registry,
    RunStatus,
    StateKey,
    StateScope,
    ToolCall,
    ToolContext,
    WorkerSettings,
    running_worker,
    thread_owner,
    tool,
)
from wakeful.client.client import Client
from wakeful.connection import embedded_server
from wakeful.storage import VARIABLE

CANARY = "canary-7f3a9e"
KEPT = "keeper-5d21c8"
"""What a thread says that is not deleted: it proves that the search finds something."""

LARGE = 150_000
LAST_SECRET = StateKey("last_secret", str, default="", scope=StateScope.THREAD)
SECRETS = ProfileKey("secrets", str, default="")
BASE64 = re.compile(rb"[A-Za-z0-9+/]{40,}={0,2}")
XZ = b"\xfd7zXZ\x00"


@tool
async def remember(secret: str, ctx: ToolContext) -> str:
    """Keep a secret, in state and in a profile."""
    ctx.state.set(LAST_SECRET, secret)
    await ctx.profiles.set(thread_owner(ctx.identity.thread_id), SECRETS, secret)
    return f"{secret} " + "x" * LARGE


@tool(background=True)
async def ponder(secret: str, ctx: ToolContext) -> str:
    """Think about a secret in the background."""
    ctx.emit("pondering", {"secret": secret})
    return f"pondered {secret}"


class Gossip:
    """A model that repeats what it hears, to every tool and every sub-agent."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        heard = CANARY if any(CANARY in message.model_dump_json() for message in request.messages) else KEPT
        tools = {tool.id for tool in request.tools}
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn == 0:
            calls = {"remember": {"secret": heard}, "ponder": {"secret": heard}}
            calls["agent_run_helper"] = {"prompt": f"tell {heard}"}
            asked = tuple(
                ToolCall(id="", name=name, arguments={**arguments})
                for name, arguments in calls.items()
                if name in tools
            )
            return ModelResponse(model="m", text=f"I heard {heard}", tool_calls=asked)
        return ModelResponse(model="m", text=f"{heard} again, turn {turn}")


REGISTRY = Registry(
    agents=[
        Agent(id="gossip", tools=[remember, ponder], delegates=["helper"], state=[LAST_SECRET]),
        Agent(id="helper", tools=[remember, ponder], state=[LAST_SECRET]),
    ],
    models={"default": Gossip()},
    profile_keys=[SECRETS],
)


async def talk(client: Client, thread_id: str, secret: str) -> None:
    """A thread with archives, an execution that was woken, and descendants."""
    for number in range(1, 6):
        await client.send(thread_id, f"{secret} {number} " + "y" * LARGE, agent_id="gossip")
        await answered(client, thread_id, runs=number)
    await client.close(thread_id, reason=f"enough of {secret}")
    await client.result(thread_id)
    await client.send(thread_id, f"{secret} once more")
    await answered(client, thread_id, runs=6)


async def answered(client: Client, thread_id: str, *, runs: int) -> None:
    await until(client, thread_id, lambda view: view.runs >= runs and view.status is RunStatus.DONE)


def readings(data: bytes, depth: int = 0) -> Iterator[bytes]:
    """The bytes, and what they contain when it is decompressed or decoded."""
    yield data
    if depth == 3:
        return
    for start in (found.start() for found in re.finditer(re.escape(XZ), data)):
        try:
            yield from readings(lzma.LZMADecompressor().decompress(data[start:]), depth + 1)
        except lzma.LZMAError:
            continue
    for found in BASE64.finditer(data):
        encoded = found.group().rstrip(b"=")
        decoded = base64.b64decode(encoded[: len(encoded) // 4 * 4])
        yield from readings(decoded, depth + 1)
        for wbits in (zlib.MAX_WBITS, zlib.MAX_WBITS | 16):
            try:
                yield from readings(zlib.decompressobj(wbits).decompress(decoded), depth + 1)
            except zlib.error:
                continue


def tables_with(database: Path, text: str) -> set[str]:
    """The tables with a row that contains a text, in whatever encoding."""
    wanted = text.encode()
    found = set[str]()
    with closing(sqlite3.connect(database)) as connection:
        connection.text_factory = bytes
        tables = [
            name.decode() for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):  # the names are the database's own
                cells = (cell if isinstance(cell, bytes) else str(cell).encode() for cell in row)
                if any(wanted in reading for cell in cells for reading in readings(cell)):
                    found.add(table)
    return found


def vacuum(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def files_with(folder: Path, text: str) -> list[str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in paths if any(text.encode() in reading for reading in readings(path.read_bytes()))]


@pytest.mark.integration
async def test_nothing_that_a_deleted_thread_said_is_left(
    tmp_path: Path, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, payloads, profiles = tmp_path / "server.db", tmp_path / "payloads", tmp_path / "profiles" / "p.db"
    monkeypatch.setenv(VARIABLE, f"dir:{payloads}")
    monkeypatch.setenv("WAKEFUL_PROFILES", f"sqlite:{profiles}")
    doomed, kept = f"{thread_id}-doomed", f"{thread_id}-kept"
    settings = WorkerSettings(history_budget=HistoryBudget(bytes=300_000))
    async with embedded_server(database=database, ui=False) as server:
        client = Client(server.client)
        async with running_worker(server.client, REGISTRY, settings):
            await talk(client, doomed, CANARY)
            await talk(client, kept, KEPT)
            fork = await client.fork(kept, at=1, message="and then?")
            await client.result(fork)
        before = tables_with(database, CANARY)
        assert {"history_node", "executions", "executions_visibility"} <= before
        assert files_with(payloads, CANARY)
        deleted = await wakeful("delete", doomed, "--yes", "--profiles", "--json", address=server.address)
        receipt = json.loads(deleted.out)
        assert (deleted.code, receipt.get("remaining")) == (0, None)
        assert (len(receipt["threads"]) >= 4, bool(receipt["archives"]), receipt["payloads"] > 10) == (True, True, True)
        assert receipt["profiles"] >= 2
    vacuum(database)
    assert tables_with(database, CANARY) == set()
    assert files_with(tmp_path, CANARY) == []
    assert tables_with(database, KEPT) >= {"history_node"}
    async with embedded_server(database=database, ui=False) as server:
        client = Client(server.client)
        async with running_worker(server.client, REGISTRY, settings):
            for thread in (kept, fork):
                await client.send(thread, "still there?", agent_id="gossip")
                await until(client, thread, lambda view: view.status is RunStatus.DONE and view.queued == 0)
                assert any(KEPT in message.text for message in await client.transcript(thread))
