"""The tests' third app: agents that call the fake provider over HTTP, in each of the three wire formats.

A worker process finds the provider by its environment: `--app tests.support.provider_app:registry`.
"""

import asyncio
import os
from pathlib import Path

from pydantic import BaseModel, field_validator

from tests.support.app import JOURNAL, note
from wakeful import Agent, PermissionPolicy, Plugin, Registry, ToolContext, tool
from wakeful.authoring.hook_contexts import AfterInference
from wakeful.contract.agents import RetryPolicy
from wakeful.contract.context import ContextPolicy
from wakeful_activities.providers.anthropic.provider import AnthropicMessages
from wakeful_activities.providers.openai_chat.provider import OpenAIChat
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses

PORT = "WAKEFUL_TEST_PROVIDER_PORT"
CANARY = "sk-canary-1f6b2c9d"
WIRES = ("chat", "responses", "anthropic")
QUEUE = "chat"
AGENT, HELPER, CAREFUL = "talker", "helper", "careful"
"""Agents to chat with: one with a sub-agent, that sub-agent, and one that asks before every call."""

RETRY = RetryPolicy(
    patience_secs=0,
    backoff_base_ms=20,
    overloaded_backoff_base_ms=20,
    stream_idle_timeout_secs=1.5,
    first_token_timeout_secs=1.5,
)
UNHURRIED = RETRY.model_copy(update={"stream_idle_timeout_secs": 30.0, "first_token_timeout_secs": 30.0})
"""For tests that count failed attempts: a provider that a busy machine delays must not add one."""


class Sum(BaseModel):
    """The sum of two numbers."""

    total: int

    @field_validator("total")
    @classmethod
    def _is_even(cls, total: int) -> int:
        if total % 2:
            raise ValueError("odd sums are not allowed")
        return total


@tool(read_only=True)
def add(a: int, b: int, ctx: ToolContext) -> int:
    """Add two numbers."""
    return a + b


class Rewriting(Plugin):
    """Rewrites the model's answer."""

    id = "rewriting"

    def after_inference(self, ctx: AfterInference) -> None:
        ctx.rewrite("Rewritten.")


class Digging:
    """Lets the tools of a test continue, one report after another."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seen = asyncio.Event()

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._seen.clear()

    def seen(self) -> None:
        """The watcher has got the newest report."""
        self._seen.set()

    async def wait(self) -> None:
        await self._seen.wait()
        self._seen.clear()

    def wait_in_a_thread(self) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self.wait(), self._loop).result(timeout=60)


DIGGING = Digging()


@tool(read_only=True)
async def dig(depth: int, ctx: ToolContext) -> str:
    """Dig, and report progress."""
    for metre in range(1, depth + 1):
        ctx.stream(f"metre {metre} ")
        if metre == 1:
            ctx.show_activity("hole", {"depth": 1})
        else:
            ctx.patch_activity("hole", {"op": "replace", "path": "/depth", "value": metre})
        ctx.report(f"metre {metre}", progress=metre / depth, loaded=metre, total=depth)
        await DIGGING.wait()
    return f"dug {depth} metres"


@tool(read_only=True)
def dig_in_a_thread(depth: int, ctx: ToolContext) -> str:
    """Dig, without knowing asyncio."""
    ctx.report("digging", progress=0.5)
    DIGGING.wait_in_a_thread()
    return f"dug {depth} metres"


@tool
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay, after a person has agreed."""
    if ctx.resume_input is None:
        ctx.suspend(f"Pay {amount} EUR?")
    note(ctx, "paid", amount=amount)
    return f"paid {amount} EUR"


@tool(read_only=True)
async def mine(ctx: ToolContext) -> str:
    """Dig until the test creates the file that ends it."""
    ctx.report("half way down", progress=0.5)
    while not enough().exists():
        await asyncio.sleep(0.02)
    return "found gold"


@tool
def knock() -> str:
    """Knock."""
    return "knocked"


def enough() -> Path:
    """The file that ends the digging."""
    return Path(os.environ[JOURNAL]).with_suffix(".enough")


def registry_for(port: int) -> Registry:
    """An agent per wire format, with variants (a window, an output type, a fallback), and agents to watch and chat."""
    root = f"http://127.0.0.1:{port}"
    agents = []
    for wire in WIRES:
        usual = Agent(id=wire, model=wire, tools=[add], retry=RETRY, inference_heartbeat_timeout=3)
        spare = WIRES[(WIRES.index(wire) + 1) % len(WIRES)]
        agents += [
            usual,
            usual.model_copy(update={"id": f"{wire}-window", "context": ContextPolicy(max_context_tokens=20_000)}),
            usual.model_copy(update={"id": f"{wire}-typed", "output": Sum}),
            usual.model_copy(update={"id": f"{wire}-backed", "fallbacks": (spare,), "retry": UNHURRIED}),
            usual.model_copy(update={"id": f"{wire}-patient", "retry": RetryPolicy()}),
        ]
    agents += [
        Agent(id="rewritten", model="chat", plugins=[Rewriting()]),
        Agent(id="digger", model="chat", tools=[dig, dig_in_a_thread]),
        Agent(id=AGENT, model="chat", tools=[pay, mine], delegates=[HELPER], spawns=[HELPER]),
        Agent(id=HELPER, model="chat", tools=[pay]),
        Agent(id=CAREFUL, model="chat", tools=[knock], permissions=PermissionPolicy()),
    ]
    return Registry(
        agents=agents,
        models={wire: f"fake-{wire}/model-{wire}" for wire in WIRES},
        providers={
            "fake-chat": OpenAIChat(api_key=CANARY, base_url=f"{root}/v1"),
            "fake-responses": OpenAIResponses(api_key=CANARY, base_url=f"{root}/v1"),
            "fake-anthropic": AnthropicMessages(api_key=CANARY, base_url=root),
        },
    )


def __getattr__(name: str) -> Registry:
    if name != "registry":
        raise AttributeError(name)
    return registry_for(int(os.environ[PORT]))
