"""Agents that ask the fake provider, in each of the three wire formats.

A worker process finds the provider by its environment: `--app tests.support.provider_app:registry`.
"""

import os

from pydantic import BaseModel, field_validator

from wakeful import Agent, Registry, ToolContext, tool
from wakeful.contract.agents import RetryPolicy
from wakeful.contract.context import ContextPolicy
from wakeful_activities.providers.anthropic.provider import AnthropicMessages
from wakeful_activities.providers.openai_chat.provider import OpenAIChat
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses

PORT = "WAKEFUL_TEST_PROVIDER_PORT"
CANARY = "sk-canary-1f6b2c9d"
WIRES = ("chat", "responses", "anthropic")

RETRY = RetryPolicy(
    backoff_base_ms=20, overloaded_backoff_base_ms=20, stream_idle_timeout_secs=1.5, first_token_timeout_secs=1.5
)


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


def registry_for(port: int) -> Registry:
    """One agent a wire format, and variants of it: with a window, with an output type, with another model behind it."""
    root = f"http://127.0.0.1:{port}"
    agents = []
    for wire in WIRES:
        usual = Agent(id=wire, model=wire, tools=[add], retry=RETRY, inference_heartbeat_timeout=3)
        spare = WIRES[(WIRES.index(wire) + 1) % len(WIRES)]
        agents += [
            usual,
            usual.model_copy(update={"id": f"{wire}-window", "context": ContextPolicy(max_context_tokens=20_000)}),
            usual.model_copy(update={"id": f"{wire}-typed", "output": Sum}),
            usual.model_copy(update={"id": f"{wire}-backed", "fallbacks": (spare,)}),
            usual.model_copy(update={"id": f"{wire}-patient", "retry": RetryPolicy()}),
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
