"""The activities of a worker, wired as `wakeful.worker` wires them, for tests without a worker."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from temporalio.client import Client as TemporalClient
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import ActivityEnvironment

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.tools import ToolCallInput
from wakeful.registry.plugin_lifecycles import PluginLifecycles
from wakeful.registry.registry import Registry
from wakeful_activities import HistoryCache, HooksActivity, InferActivity, ToolActivity
from wakeful_activities.heartbeats import HeartbeatIntervals
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.inference.breakers import CircuitBreakers
from wakeful_activities.user_code import UserCode


@dataclass(frozen=True)
class Activities:
    infer: InferActivity
    tools: ToolActivity
    hooks: HooksActivity


@contextmanager
def activities(
    registry: Registry,
    cache: HistoryCache,
    lifecycles: PluginLifecycles | None = None,
    *,
    breakers: CircuitBreakers | None = None,
) -> Iterator[Activities]:
    """The activities over one registry, while the body runs."""
    user_code = UserCode()
    hooks, gates = Hooks(registry, user_code, lifecycles=lifecycles), Gates(registry, user_code)
    yield Activities(
        InferActivity(registry, cache, hooks, gates, {}, breakers),
        ToolActivity(registry, cache, hooks, gates, user_code),
        HooksActivity(cache, hooks, HeartbeatIntervals()),
    )


def cache_of(*agents: ResolvedAgent) -> HistoryCache:
    """A history cache that holds these agents, and so never reads history."""
    cache = HistoryCache(cast("TemporalClient", None))
    for agent in agents:
        cache.put_agent(agent)
    return cache


def environment(client: TemporalClient | None = None, *, tool: str = "unknown") -> ActivityEnvironment:
    """An activity's environment, with the payload converter of our workers; a tool's name is its activity's type."""
    made = ActivityEnvironment(client=client)
    made.info = dataclasses.replace(made.info, activity_type=tool)
    made.payload_converter = pydantic_data_converter.payload_converter
    return made


def raw(input: ToolCallInput) -> list[RawValue]:
    """The argument of the dynamic tool activity."""
    return [RawValue(payload) for payload in pydantic_data_converter.payload_converter.to_payloads([input])]
