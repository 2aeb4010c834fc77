"""Take the pictures in this folder: a run that waits for a decision, as Temporal UI shows it.

Everything in them is real: the embedded server, a worker with the demo's agents, and headless Chromium, driven over
its DevTools protocol with no package beside Wakeful's own.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import JsonValue

from wakeful.client import WakefulClient
from wakeful.cli import options
from wakeful.cli.demo import QUESTION
from wakeful.cli.exits import run_and_leave
from wakeful.connection import EmbeddedServer, embedded_server
from wakeful.contract.errors import ConfigurationError, WakefulError
from wakeful.contract.events import RunFinish
from wakeful.contract.runs import Suspended
from wakeful.worker import load_registry, running_worker

FOLDER = Path(__file__).parent
THREAD = "refund-order-1042"
PATIENCE = 60.0
"""Seconds that any one wait may take."""


@dataclass(frozen=True)
class Picture:
    """A page of the UI, and the text that tells it has been drawn."""

    name: str
    page: str
    shows: str
    width: int = 1280
    height: int = 800


def pictures(run: str) -> list[Picture]:
    return [
        Picture("list", "", "refund-order-1042"),
        Picture("history", f"/{THREAD}/{run}/history", "refund"),
        Picture("timeline", f"/{THREAD}/{run}/timeline", "refund"),
        Picture("details", f"/{THREAD}/{run}/user-metadata", "refund"),
    ]


async def take() -> None:
    """Start a run that suspends, and photograph it."""
    async with embedded_server() as server:
        client = WakefulClient(server.client)
        async with running_worker(server.client, load_registry(options.DEMO_APP)), chromium() as browser:
            async with asyncio.timeout(PATIENCE):
                await until_suspended(client)
            run = (await client.handle(THREAD).describe()).run_id
            for picture in pictures(run):
                await photograph(browser, f"{server.ui}/namespaces/{server.namespace}/workflows", picture)


async def until_suspended(client: WakefulClient) -> None:
    await client.start("assistant", QUESTION, thread_id=THREAD)
    async for record in client.watch(THREAD):
        if isinstance(record.event, RunFinish):
            if isinstance(record.event.termination, Suspended):
                return
            break
    raise WakefulError(f"the run on thread {THREAD!r} ended and asked for no decision; there is nothing to show")


async def photograph(browser: "Browser", ui: str, picture: Picture) -> None:
    size = {"width": picture.width, "height": picture.height}
    await browser.call("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
    await browser.call("Page.navigate", url=ui + picture.page)
    await asyncio.sleep(6)
    r = await browser.call("Runtime.evaluate", expression="document.body.innerText")
    print(picture.name, r["result"]["value"][:3000])
    print(await browser.call("Runtime.evaluate", expression="location.href+' '+JSON.stringify(localStorage)"))
    shot = await browser.call("Page.captureScreenshot", format="png")
    path = FOLDER / f"{picture.name}.png"
    path.write_bytes(base64.b64decode(str(shot["data"])))
    print(path)


FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)

Answer = dict[str, JsonValue]


class Browser:
    """One page of Chromium, over a WebSocket: the little of both protocols that a picture needs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._session: str | None = None

    async def call(self, method: str, **params: JsonValue) -> Answer:
        id = next(self._ids)
        request: Answer = {"id": id, "method": method, "params": dict(params)}
        if self._session is not None:
            request["sessionId"] = self._session
        self._send(json.dumps(request).encode())
        while True:
            answer = json.loads(await self._receive())
            if answer.get("id") == id:
                if "error" in answer:
                    raise WakefulError(f"chromium refused {method}: {answer['error']['message']}")
                return answer["result"]

    async def open_page(self) -> None:
        target = await self.call("Target.createTarget", url="about:blank")
        session = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = str(session["sessionId"])

    def _send(self, data: bytes) -> None:
        mask = os.urandom(4)
        size = struct.pack("!BQ", 0x80 | 127, len(data))
        self._writer.write(b"\x81" + size + mask + bytes(b ^ k for b, k in zip(data, itertools.cycle(mask))))

    async def _receive(self) -> bytes:
        message = b""
        while True:
            head, size = await self._reader.readexactly(2)
            if size >= 126:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8))
            message += await self._reader.readexactly(size)
            if head & 0x80:
                return message


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    command = shutil.which("chromium")
    if command is None:
        raise ConfigurationError(["chromium is missing; install it with: apt-get install chromium"])
    with tempfile.TemporaryDirectory(prefix="wakeful-pictures-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            command, *FLAGS, f"--user-data-dir={profile}", stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr
        try:
            async for line in process.stderr:
                if b"DevTools listening on " in line:
                    break
            url = urlsplit(line.split()[-1].decode())
            reader, writer = await asyncio.open_connection(url.hostname, url.port, limit=2**26)
            writer.write(f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode())
            print(await reader.readuntil(b"\r\n\r\n"))
            b = Browser(reader, writer)
            await b.open_page()
            yield b
        finally:
            process.terminate()
            await process.wait()

if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(take()), name="take.py")
