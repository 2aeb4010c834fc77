"""Agents for the basics: tools of every kind, which write to a journal, so that tests know how often a body ran."""

import asyncio
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from wakeful import (
    Agent,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    ScriptedModel,
    ToolContext,
    ToolError,
    ToolMode,
    call,
    say,
    tool,
)
from wakeful.authoring.scripted import Turn

JOURNAL = "WAKEFUL_TEST_JOURNAL"


def note(ctx: ToolContext, what: str, **more: JsonValue) -> None:
    """Write a line about a call to the journal, whose path is in the environment."""
    if path := os.environ.get(JOURNAL):
        line = {"tool": ctx.tool_name, "what": what, "key": ctx.idempotency_key, "attempt": ctx.attempt, **more}
        with Path(path).open("a") as journal:
            journal.write(json.dumps(line) + "\n")


@tool(read_only=True, heartbeat_timeout=3)
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b


@tool(read_only=True, local=True)
def glance(text: str) -> str:
    """Give the text back, inside the workflow's own task."""
    return text


@tool
async def echo(text: str, ctx: ToolContext) -> str:
    """Give the text back."""
    note(ctx, "ran")
    return text


@tool
def approve(what: str, ctx: ToolContext) -> dict[str, JsonValue]:
    """Do something after a person has agreed."""
    if ctx.resume_input is None:
        note(ctx, "asked")
        ctx.suspend(f"May I {what}?", action="approve")
    note(ctx, "ran")
    return {"did": what, "said": ctx.resume_input.result, "reason": ctx.resume_input.reason}


@tool
def explode(
    how: Literal["tool_error", "exception", "silent", "unserialisable", "stop_iteration"] = "exception",
) -> object:
    """Fail."""
    match how:
        case "tool_error":
            raise ToolError("the fuse is wet")
        case "exception":
            raise ValueError("boom")
        case "silent":
            raise KeyError
        case "unserialisable":
            return threading.Lock()
        case "stop_iteration":
            return next(iter(()))


@tool(heartbeat_timeout=3)
async def linger(seconds: float, ctx: ToolContext) -> str:
    """Take a while; it may not run twice."""
    return await _linger(seconds, ctx)


@tool(heartbeat_timeout=3, idempotent=True)
async def linger_idempotent(seconds: float, ctx: ToolContext) -> str:
    """Take a while; it may run twice."""
    return await _linger(seconds, ctx)


async def _linger(seconds: float, ctx: ToolContext) -> str:
    note(ctx, "began")
    ctx.report("lingering", progress=0.5)
    try:
        await asyncio.sleep(0 if ctx.attempt > 1 else seconds)
    except asyncio.CancelledError:
        note(ctx, "cancelled")
        raise
    note(ctx, "ended")
    return f"lingered, attempt {ctx.attempt}"


@tool
def linger_in_a_thread(seconds: float, ctx: ToolContext) -> str:
    """Take a while without knowing asyncio."""
    note(ctx, "began")
    until = time.monotonic() + seconds
    while time.monotonic() < until and not ctx.cancelled:
        time.sleep(0.01)
    note(ctx, "cancelled" if ctx.cancelled else "ended")
    return "lingered"


@tool(read_only=True, heartbeat_timeout=60)
async def dawdle() -> str:
    """Take so long that a test can kill the worker meanwhile."""
    await asyncio.sleep(120)
    return "done"


@tool(read_only=True)
def flood(size: int) -> str:
    """Return too much."""
    return "x" * size


_meeting = threading.Barrier(2)


@tool
def meet() -> str:
    """Return when two calls are here at the same time."""
    _meeting.wait(timeout=20)
    return "met"


TOOLS = [add, flood, glance, echo, approve, explode, linger, linger_idempotent, linger_in_a_thread, meet]


class Failing:
    """Fails `failures` times with one kind of error, then says so; counted over the process."""

    def __init__(self, kind: ProviderErrorKind, failures: int) -> None:
        self.kind = kind
        self.failures = failures
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.calls += 1
        if self.calls <= self.failures:
            raise ProviderError(self.kind, f"failure {self.calls}", retry_after=0.01)
        return ModelResponse(model=request.model, text=f"answered after {self.calls - 1} failures")


class Hanging:
    """Never answers; remembers that it was cancelled."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError("only a cancellation ends this wait")


class Recording:
    """A scripted model that keeps what it was asked."""

    def __init__(self, turns: Sequence[Turn], when: Mapping[str, Sequence[Turn]] | None = None) -> None:
        self.script = ScriptedModel(turns, when=when or {})
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        return self.script.answer(request)


script = ScriptedModel(
    [say("hello, {input}")],
    when={
        "^add": [call("add", a=2, b=3).unchecked(), say("the sum is {result}")],
        "^approve": [call("approve", what="launch"), say("approval gave {result}")],
        "^two approvals": [call("approve", what="launch") & call("approve", what="land"), say("{result}")],
        "^mixed": [call("echo", text="one") & call("approve", what="launch") & call("echo", text="three"), say("ok")],
        "^explode (?P<how>exception)": [call("explode", how="exception"), say("it said {result}")],
        "^explode tool_error": [call("explode", how="tool_error"), say("it said {result}")],
        "^explode stop_iteration": [call("explode", how="stop_iteration"), say("it said {result}")],
        "^explode silent": [call("explode", how="silent"), say("it said {result}")],
        "^explode unserialisable": [call("explode", how="unserialisable"), say("it said {result}")],
        "^bad arguments": [call("add", a="many", c=1).unchecked(), say("it said {result}")],
        "^unknown tool": [call("levitate").unchecked(), say("it said {result}")],
        "^browse": [call("open_page", url="/home"), say("the page says {result}")],
        "^linger thread": [call("linger_in_a_thread", seconds=60), say("{result}")],
        "^linger idempotent": [call("linger_idempotent", seconds=60), say("{result}")],
        "^linger": [call("linger", seconds=60), say("{result}")],
        "^many": [*(call("echo", text="x" * 200) for _ in range(12)), say("done")],
        "^count": [*(call("add", a=n, b=1) for n in range(1, 11)), say("counted to {result}")],
        "^dawdle": [call("dawdle"), say("{result}")],
        "^for ever": [call("add", a=1, b=1)] * 50,
        "^glance": [
            call("glance", text="near") & call("glance", text="far"),
            call("glance", text="again"),
            say("{result}"),
        ],
        "^flood": [call("flood", size=3_000_000), say("got {result}")],
        "^meet": [call("meet") & call("meet"), say("{result}")],
        "^survive": [
            call("echo", text="first") & call("linger", seconds=60) & call("linger_idempotent", seconds=60),
            say("{result}"),
        ],
    },
)

AGENTS = [
    Agent(id="tester", instructions="Be brief.", tools=TOOLS, inference_heartbeat_timeout=3),
    Agent(id="parallel", tools=TOOLS, tool_mode=ToolMode.PARALLEL, inference_heartbeat_timeout=3),
    Agent(id="short", tools=TOOLS, max_rounds=3),
    Agent(id="slow", tools=[dawdle]),
]
