"""Find the threads, tickets, agents and schedules that a shell offers on Tab.

A shell waits for the candidates and shows everything that is printed. So a search takes at most a second, and finds
nothing, in silence, when the cluster does not answer.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

from temporalio.client import Client
from temporalio.common import SearchAttributeKey

from wakeful.cli.process import run
from wakeful.client.queries import OPEN_RUNS
from wakeful.client.schedules import Schedules
from wakeful.connection import Address, connect
from wakeful.contract import names
from wakeful.contract.ids import ticket_id
from wakeful.history.list_queries import quoted

TIMEOUT_SECONDS = 1.0
MOST_CANDIDATES = 50
SEARCHED_THREADS = 200
"""The newest threads, whose agents and pending decisions are offered."""

Params = Mapping[str, str | None]
"""The options of the command line so far."""

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)


def open_threads(params: Params, prefix: str) -> list[str]:
    """The ids of open threads, newest first."""

    async def search(client: Client) -> AsyncIterator[str]:
        starts = f" AND WorkflowId STARTS_WITH {quoted(prefix)}" if prefix else ""
        async for execution in client.list_workflows(OPEN_RUNS + starts, limit=MOST_CANDIDATES):
            yield execution.id

    return _find(params, search, prefix)


def pending_tickets(params: Params, prefix: str) -> list[str]:
    """The tickets of pending decisions."""

    async def search(client: Client) -> AsyncIterator[str]:
        waiting = f"{OPEN_RUNS} AND {names.ATTRIBUTE_PENDING} IS NOT NULL"
        async for execution in client.list_workflows(waiting, limit=SEARCHED_THREADS):
            for call_id in execution.typed_search_attributes.get(_PENDING) or ():
                yield ticket_id(execution.id, call_id)

    return _find(params, search, prefix)


def recent_agents(params: Params, prefix: str) -> list[str]:
    """The agents of the newest threads; only workers know the whole registry."""

    async def search(client: Client) -> AsyncIterator[str]:
        async for execution in client.list_workflows(f"WorkflowType = '{names.WORKFLOW}'", limit=SEARCHED_THREADS):
            if agent := execution.typed_search_attributes.get(_AGENT):
                yield agent

    return _find(params, search, prefix)


def all_schedules(params: Params, prefix: str) -> list[str]:
    """The ids of schedules."""

    async def search(client: Client) -> AsyncIterator[str]:
        async for schedule in Schedules(client).list():
            yield schedule.schedule_id

    return _find(params, search, prefix)


def _find(params: Params, search: Callable[[Client], AsyncIterator[str]], prefix: str) -> list[str]:
    address = Address(
        address=params.get("address"), namespace=params.get("namespace"), client=params.get("client_factory")
    )
    found: dict[str, None] = {}

    async def collect() -> None:
        with contextlib.suppress(Exception):  # a shell has no place to show an error
            async for name in search(await connect(address)):
                if name.startswith(prefix):
                    found[name] = None

    async def bounded() -> None:
        await asyncio.wait({asyncio.create_task(collect())}, timeout=TIMEOUT_SECONDS)

    run(bounded())
    return list(found)[:MOST_CANDIDATES]
