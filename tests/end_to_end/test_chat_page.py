"""examples/chat_page in headless Chromium: two browsers on one thread, live text, a reload, a thread that is closed."""

import asyncio
import contextlib
import json
import shutil
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn

from docs.pictures.take import Browser, chromium
from examples.chat_page.app import chat
from tests.support.processes import ROOT
from wakeful import (
    Agent,
    CallArgumentsPart,
    CallStartPart,
    Client,
    ModelRequest,
    Registry,
    Role,
    RunStatus,
    StopPart,
    StreamPart,
    TextPart,
    tool,
)
from wakeful.testing import runtime

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing: apt-get install chromium"),
]

QUESTION = "How many grinders are left?"
CALL = 'stock {"item":"grinder"} → 3'
TIMEOUT_SECONDS = 90


@tool(read_only=True)
def stock(item: str) -> int:
    """How many pieces of an item are in stock."""
    return len(item) - 4


class Slow:
    """Looks into the stock, and stops in the middle of its answer until the test has seen the first half."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[StreamPart]:
        if request.messages[-1].role is not Role.TOOL:
            yield CallStartPart(index=0, id="c1", name="stock")
            yield CallArgumentsPart(index=0, text='{"item": "grinder"}')
            yield StopPart("ToolUse")
            return
        yield TextPart("There are ")
        await self.released.wait()
        yield TextPart("three <grinders> left.")
        yield StopPart("EndTurn")


@contextlib.asynccontextmanager
async def serving(client: Client) -> AsyncIterator[str]:
    """The page of a thread, at its address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(chat(client, "clerk"), log_level="warning", timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/kitchen"
        finally:
            server.should_exit = True
            await running


@contextlib.asynccontextmanager
async def tab(url: str) -> AsyncIterator[Browser]:
    assert CHROMIUM is not None
    async with chromium(CHROMIUM) as browser:
        await load(browser, url)
        yield browser


async def load(browser: Browser, url: str) -> None:
    """Load the page, or load it again: when this returns, nothing of the page before is left."""
    await browser.call("Page.navigate", {"url": url})
    await browser.evaluate('new Promise(done => document.readyState == "complete" ? done() : onload = done)')


async def shows(browser: Browser, lines: list[str]) -> None:
    """Wait until the conversation has these lines, and no others."""
    expression = f"""new Promise(done => {{
        const look = () => {{
            const lines = [...document.querySelectorAll("main p")].map(line => line.textContent)
            JSON.stringify(lines) == JSON.stringify({json.dumps(lines)}) ? done() : setTimeout(look, 50)
        }}
        look()
    }})"""
    await browser.evaluate(expression)


async def say(browser: Browser, text: str) -> None:
    await browser.evaluate(f"input.value = {json.dumps(text)}; form.requestSubmit()")


async def test_every_tab_of_a_thread_shows_it_live_and_after_a_reload() -> None:
    model = Slow()
    registry = Registry(agents=[Agent(id="clerk", tools=[stock])], models={"default": model})
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        runtime(registry) as client,
        serving(client) as url,
        tab(url) as one,
        tab(url) as other,
    ):
        await shows(other, [])  # there is no such thread yet
        await say(one, QUESTION)
        for each in (one, other):
            await shows(each, [QUESTION, CALL, "There are "])
        assert (await client.status("kitchen")).status is RunStatus.RUNNING
        await load(one, url)
        await shows(one, [QUESTION, CALL, "There are "])
        model.released.set()
        whole = [QUESTION, CALL, "There are three <grinders> left."]
        for each in (one, other):
            await shows(each, whole)
        await client.close("kitchen")
        await client.result("kitchen")
        await load(one, url)
        await shows(one, whole)


def test_it_has_sixty_lines() -> None:
    files = (ROOT / "examples/chat_page" / name for name in ("app.py", "page.html"))
    assert sum(1 for file in files for line in file.read_text().splitlines() if line.strip()) == 60
