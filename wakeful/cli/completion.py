"""What a shell offers on Tab: threads, tickets and agents, as the cluster that the line names knows them.

A shell waits for it and shows whatever is printed, so it is bounded by a second, and silent when nobody answers.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import typer
from temporalio.client import Client, WorkflowExecution
from temporalio.common import SearchAttributeKey

from wakeful.cli.process import run
from wakeful.client.queries import OPEN_RUNS, quoted
from wakeful.connection import Address, connect
from wakeful.contract import names
from wakeful.contract.ids import ticket_id

BOUND_SECONDS = 1.0
AT_MOST = 50
LOOKED_AT = 200
"""Threads that are looked at for agents: the newest."""

Found = AsyncIterator[str]

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)


def threads_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """The open threads whose ids begin so, newest first."""

    async def find(client: Client) -> Found:
        begins = f" AND WorkflowId STARTS_WITH {quoted(incomplete)}" if incomplete else ""
        async for execution in client.list_workflows(OPEN_RUNS + begins, limit=AT_MOST):
            yield execution.id

    return _found(ctx, find, incomplete)


def tickets_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """The decisions that are waited for, by their tickets."""

    async def find(client: Client) -> Found:
        waiting = f"{OPEN_RUNS} AND {names.ATTRIBUTE_PENDING} IS NOT NULL"
        async for execution in client.list_workflows(waiting, limit=LOOKED_AT):
            for call_id in execution.typed_search_attributes.get(_PENDING) or ():
                yield ticket_id(execution.id, call_id)

    return _found(ctx, find, incomplete)


def agents_like(ctx: typer.Context, incomplete: str) -> list[str]:
    """The agents of the newest threads: a registry is known to its workers alone."""

    async def find(client: Client) -> Found:
        async for execution in client.list_workflows(f"WorkflowType = '{names.WORKFLOW}'", limit=LOOKED_AT):
            if agent := _agent(execution):
                yield agent

    return _found(ctx, find, incomplete)


def _agent(execution: WorkflowExecution) -> str | None:
    return execution.typed_search_attributes.get(_AGENT)


def _found(ctx: typer.Context, find: Callable[[Client], Found], incomplete: str) -> list[str]:
    where = Address(address=ctx.params.get("address"), namespace=ctx.params.get("namespace"))
    found: dict[str, None] = {}

    async def go() -> None:
        with contextlib.suppress(Exception):  # whatever is wrong, a shell has no place to show it
            async for name in find(await connect(where)):
                if name.startswith(incomplete):
                    found[name] = None

    async def bounded() -> None:
        await asyncio.wait({asyncio.create_task(go())}, timeout=BOUND_SECONDS)

    run(bounded())
    return list(found)[:AT_MOST]
