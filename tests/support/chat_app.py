"""Agents that people chat with: the fake provider is their model, and a test lets their tools finish.

A worker process finds the provider by its environment: `--app tests.support.chat_app:registry`.
"""

import asyncio
import os
from pathlib import Path

from tests.support.app import JOURNAL, note
from tests.support.provider_app import CANARY, PORT
from wakeful import Agent, PermissionPolicy, Registry, ToolContext, tool
from wakeful_activities.providers.openai_chat.provider import OpenAIChat

AGENT, HELPER, CAREFUL = "talker", "helper", "careful"
QUEUE = "chat"


@tool
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay, after a person has agreed."""
    if ctx.resume_input is None:
        ctx.suspend(f"Pay {amount} EUR?")
    note(ctx, "paid", amount=amount)
    return f"paid {amount} EUR"


@tool(read_only=True)
async def dig(ctx: ToolContext) -> str:
    """Dig until the test says that it is deep enough."""
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


def __getattr__(name: str) -> Registry:
    if name != "registry":
        raise AttributeError(name)
    root = f"http://127.0.0.1:{int(os.environ[PORT])}"
    return Registry(
        agents=[
            Agent(id=AGENT, model="m", tools=[pay, dig], delegates=[HELPER], spawns=[HELPER]),
            Agent(id=HELPER, model="m", tools=[pay]),
            Agent(id=CAREFUL, model="m", tools=[knock], permissions=PermissionPolicy()),
        ],
        models={"m": "fake/model"},
        providers={"fake": OpenAIChat(api_key=CANARY, base_url=f"{root}/v1")},
    )
