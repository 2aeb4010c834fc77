"""A worker whose agents a remote service runs, and local agents that call them."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client as TemporalClient

from tests.conftest import worker_settings
from tests.support.a2a_peer import Peer, running_peer
from wakeful import Agent, Endpoint, Registry, ScriptedModel
from wakeful.authoring.scripted import Turn
from wakeful.client.client import Client
from wakeful.contract.agents import HistoryBudget
from wakeful.worker import running_worker

STOP = timedelta(seconds=0.5)
"""How long a call may continue when its worker stops."""


@dataclass(frozen=True)
class Remote:
    """A remote agent, and a client of the worker that calls it."""

    peer: Peer
    client: Client


def remote_agent(peer: Peer, **endpoint: Any) -> Agent:
    """The agent `remote`, whose worker counts as lost after a short time."""
    given: dict[str, Any] = {"poll_seconds": 0.2, **endpoint}
    return Agent(id="remote", endpoint=Endpoint(url=peer.url, **given), inference_heartbeat_timeout=2)


@contextlib.asynccontextmanager
async def remote_worker(
    temporal: TemporalClient,
    task_queue: str,
    peer: Peer,
    *,
    turns: Sequence[Turn] = (),
    events: int = 2000,
    **endpoint: Any,
) -> AsyncIterator[Client]:
    """A worker for the remote agent, and for the agent `local`, which follows its turns and may call the remote one."""
    local = Agent(id="local", model="plan", delegates=["remote"], spawns=["remote"], handoffs=["remote"])
    registry = Registry(agents=[local, remote_agent(peer, **endpoint)], models={"plan": ScriptedModel(list(turns))})
    budget = HistoryBudget(events=events)
    settings = worker_settings(
        task_queue=task_queue, history_budget=budget, sweep_interval=None, graceful_shutdown=STOP
    )
    async with running_worker(temporal, registry, settings), Client(temporal, task_queue=task_queue) as client:
        yield client


@contextlib.asynccontextmanager
async def remote_runtime(
    temporal: TemporalClient,
    task_queue: str,
    *,
    turns: Sequence[Turn] = (),
    events: int = 2000,
    peer: dict[str, Any] | None = None,
    **endpoint: Any,
) -> AsyncIterator[Remote]:
    async with (
        running_peer(**(peer or {})) as running,
        remote_worker(temporal, task_queue, running, turns=turns, events=events, **endpoint) as client,
    ):
        yield Remote(running, client)
