"""Take the pictures in this folder: a run that waits for a decision, as Temporal UI shows it.

The server, the worker and the UI are real; the model is the demo's scripted one. Headless Chromium is driven over its
DevTools protocol, with no package beside Wakeful's own.
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import struct
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import JsonValue

from wakeful.cli import options
from wakeful.cli.commands.demo import QUESTION
from wakeful.cli.process import run_and_leave
from wakeful.client.client import Client
from wakeful.connection import EmbeddedServer, embedded_server
from wakeful.contract.errors import ConfigurationError, WakefulError
from wakeful.contract.events import RunFinish
from wakeful.contract.runs import Suspended
from wakeful.worker import load_registry, running_worker

FOLDER = Path(__file__).parent
AGENT = "assistant"
THREAD = "refund-order-1042"
SMALL_TALK = "opening-hours"

TIMEOUT_SECONDS = 60.0
"""Seconds that any one wait may take."""

WIDTH = 1400
SHARPNESS = 1.5

# What a person would set by hand: a folded menu, the light theme, and our search attributes as columns.
PREFERENCES: dict[str, JsonValue] = {
    "navOpen": False,
    "dark mode": False,
    "namespace-workflow-table-columns": {
        "default": [
            {"label": label}
            for label in ("Status", "Workflow ID", "WakefulAgent", "WakefulStatus", "Type", "Start", "End")
        ]
    },
}

Params = dict[str, JsonValue]


@dataclass(frozen=True)
class Picture:
    """A page of the UI, its height, words that are there once it has been drawn, and a button to press then."""

    name: str
    path: str
    height: int
    words: tuple[str, ...]
    press: str | None = None


async def take() -> None:
    """Start a run that suspends, and photograph it."""
    command = chromium_command()
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        os.environ.pop(name, None)  # the demo would ask that model instead of its script, and might not suspend
    async with embedded_server() as server, running_worker(server.client, load_registry(options.DEMO_APP)):
        client = Client(server.client)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await client.run(AGENT, "When do you open?", thread_id=SMALL_TALK)
            await suspend(client)
            run_id = (await client.handle(THREAD).describe()).run_id
        async with chromium(command) as browser:
            for picture in pictures(f"/{THREAD}/{run_id}"):
                await photograph(browser, server, picture)


def pictures(run: str) -> list[Picture]:
    return [
        Picture("suspended-timeline", f"{run}/timeline", 790, ("look_up_order", "refund •"), press="Descending"),
        Picture("suspended-details", f"{run}/user-metadata", 920, (QUESTION, "Refund 249.00 EUR", "wakeful approve")),
        # The last one: lists are brought up to date a moment after the runs.
        Picture("list", "", 440, (THREAD, SMALL_TALK, "waiting", "done")),
    ]


async def suspend(client: Client) -> None:
    await client.start(AGENT, QUESTION, thread_id=THREAD)
    async for record in client.watch(THREAD):
        if isinstance(record.event, RunFinish):
            if isinstance(record.event.termination, Suspended):
                return
            break
    raise WakefulError(f"the run on thread {THREAD!r} asked for no decision; there is nothing to show")


async def photograph(browser: "Browser", server: EmbeddedServer, picture: Picture) -> None:
    url = f"{server.ui}/namespaces/{server.namespace}/workflows{picture.path}"
    view: Params = {"width": WIDTH, "height": picture.height, "deviceScaleFactor": SHARPNESS, "mobile": False}
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await browser.call("Emulation.setDeviceMetricsOverride", view)
            await browser.call("Page.navigate", {"url": url})
            await browser.evaluate(drawn(picture.words))
            if picture.press is not None:
                await browser.evaluate(pressed(picture.press))
            screenshot = await browser.call("Page.captureScreenshot", {"format": "png"})
    except TimeoutError as error:
        raise WakefulError(f"{url} did not show {picture.words!r} within {TIMEOUT_SECONDS:.0f} seconds") from error
    path = FOLDER / f"{picture.name}.png"
    path.write_bytes(base64.b64decode(str(screenshot["data"])))
    print(path)


def drawn(words: tuple[str, ...]) -> str:
    """A promise that all the words can be read, in the page or in the frames that markdown is drawn in."""
    return f"""
        new Promise((done) => {{
            const words = {json.dumps(words)};
            const look = () => {{
                const frames = [...document.querySelectorAll("iframe")];
                const pages = [document, ...frames.map((frame) => frame.contentDocument)];
                const text = pages.map((page) => page?.body?.innerText).join();
                // The UI makes a frame 70 pixels lower than its page, and too low for it until the page has loaded.
                const whole = frames.every((f) => f.clientHeight + 80 > f.contentDocument?.body?.scrollHeight);
                whole && words.every((word) => text.includes(word)) ? done() : requestAnimationFrame(look);
            }};
            look();
        }})
    """


def pressed(button: str) -> str:
    """A promise that the button has been pressed, and that the page has been drawn once more."""
    return f"""
        new Promise((done) => {{
            const buttons = [...document.querySelectorAll("button")];
            buttons.find((button) => button.innerText.trim() === {json.dumps(button)}).click();
            requestAnimationFrame(() => requestAnimationFrame(done));
        }})
    """


def chromium_command() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise ConfigurationError(["chromium is missing; install it with: apt-get install chromium"])


@contextlib.asynccontextmanager
async def chromium(command: str) -> AsyncIterator["Browser"]:
    """A page of headless Chromium, with a profile of its own that goes when the browser does."""
    flags = (
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
    with tempfile.TemporaryDirectory(prefix="wakeful-pictures-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            command, *flags, f"--user-data-dir={profile}", stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None  # it was asked for
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                browser = await Browser.connect(await devtools_url(process.stderr))
                await browser.open_page()
            # An unread log fills its pipe, and stops the browser.
            drain = asyncio.create_task(process.stderr.read())
            try:
                yield browser
            finally:
                drain.cancel()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def devtools_url(log: asyncio.StreamReader) -> str:
    said = []
    async for line in log:
        said.append(line.decode(errors="replace"))
        if "DevTools listening on " in said[-1]:
            return said[-1].split()[-1]
    raise WakefulError(f"chromium did not start: {''.join(said).strip()}")


class Browser:
    """One page, over a WebSocket: the little of both protocols that a picture needs."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._session: Params = {}

    @classmethod
    async def connect(cls, url: str) -> "Browser":
        where = urlsplit(url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        lines = (
            f"GET {where.path} HTTP/1.1",
            f"Host: {where.netloc}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        )
        writer.write("\r\n".join((*lines, "", "")).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in answer.partition(b"\r\n")[0]:
            raise WakefulError(f"chromium refused the connection: {answer!r}")
        return cls(reader, writer)

    async def open_page(self) -> None:
        target = await self.call("Target.createTarget", {"url": "about:blank"})
        session = await self.call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        self._session = {"sessionId": session["sessionId"]}
        preferences = {key: json.dumps(value) for key, value in PREFERENCES.items()}
        remember = f"Object.assign(localStorage, {json.dumps(preferences)})"
        await self.call("Page.enable", {})
        await self.call("Page.addScriptToEvaluateOnNewDocument", {"source": remember})

    async def call(self, method: str, params: Params) -> Params:
        id = next(self._ids)
        self._send(json.dumps({"id": id, "method": method, "params": params, **self._session}).encode())
        while True:
            answer: Params = json.loads(await self._receive())
            if answer.get("id") != id:  # an event, not an answer
                continue
            result = answer.get("result")
            if not isinstance(result, dict):
                raise WakefulError(f"chromium refused {method}: {answer.get('error')!r}")
            return result

    async def evaluate(self, promise: str) -> None:
        answer = await self.call("Runtime.evaluate", {"expression": promise, "awaitPromise": True})
        if "exceptionDetails" in answer:
            raise WakefulError(f"a script failed in the page: {answer['exceptionDetails']!r}")

    def _send(self, data: bytes) -> None:
        key = os.urandom(4)
        masked = bytes(byte ^ mask for byte, mask in zip(data, itertools.cycle(key), strict=False))
        self._writer.write(struct.pack("!BBQ", 0x81, 0x80 | 127, len(data)) + key + masked)

    async def _receive(self) -> bytes:
        message, last = b"", False
        while not last:
            head, size = await self._reader.readexactly(2)
            if size > 125:
                size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
            message += await self._reader.readexactly(size)
            last = bool(head & 0x80)
        return message


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(take()), name="take.py")
