"""`client.threads` and `wakeful list`: threads by what Temporal's visibility has of them."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from tests.support.processes import wakeful
from wakeful import CallerError, RunStatus, ThreadMode, ThreadSummary
from wakeful.client.client import Client
from wakeful.connection import EmbeddedServer

BOUND_SECONDS = 60


async def listed(client: Client, count: int, **wanted: Any) -> list[ThreadSummary]:
    """The threads, as soon as visibility lists so many."""
    async with asyncio.timeout(BOUND_SECONDS):
        while len(found := [thread async for thread in client.threads(**wanted)]) != count:
            await asyncio.sleep(0.1)
    return found


async def test_threads_are_listed_by_what_they_are_and_once_each(
    client: Client, thread_id: str, server: EmbeddedServer
) -> None:
    """A thread that was woken, and one that has continued as new, are listed as their newest execution."""
    talking, failing, waiting = (f"{thread_id}-{number}" for number in range(3))
    await client.start(
        "tester", "one", thread_id=talking, mode=ThreadMode.THREAD, title="A title", tenant=thread_id, user="ada"
    )
    await client.result(talking)
    await client.close(talking)
    await client.result(talking)
    await client.ask(talking, "two", user="ada", metadata={"order": "7"})
    await client.run("nobody", "three", thread_id=failing, tenant=thread_id)
    await client.send(waiting, "approve", agent_id="tester", tenant=thread_id)
    found = await listed(client, 1, tenant=thread_id, status="waiting")
    assert [(each.thread_id, each.pending, each.title) for each in found] == [(waiting, ("1-1",), "approve")]

    threads = {each.thread_id: each for each in await listed(client, 3, tenant=thread_id)}
    woken = threads[talking]
    assert (woken.agent_id, woken.title, woken.status, woken.outcome) == ("tester", "two", RunStatus.DONE, "natural")
    assert (woken.user, woken.closed_as, woken.last_line) == ("ada", None, None)
    assert (threads[failing].outcome, threads[failing].closed_as) == ("error", "failed")

    [failed] = await listed(client, 1, tenant=thread_id, outcome="error", agent_id="nobody")
    assert failed == threads[failing]
    assert await listed(client, 1, tenant=thread_id, user="ada", is_open=True) == [woken]
    assert await listed(client, 0, tenant=thread_id, started_before=timedelta(hours=1)) == []
    assert len(await listed(client, 2, tenant=thread_id, limit=2)) == 2
    [detailed] = await listed(client, 1, tenant=thread_id, user="ada", details=True)
    assert (detailed.runs, detailed.last_line, detailed.metadata) == (2, "hello, two", {"order": "7"})
    assert await listed(client, 1, tenant=thread_id, metadata={"order": "7"}, limit=1) == [detailed]
    assert await listed(client, 0, tenant=thread_id, metadata={"order": "8"}) == []
    with pytest.raises(CallerError, match="Temporal does not understand the filter"):
        await listed(client, 0, query="nonsense")

    address, wanted = server.address, ("list", "--tenant", thread_id, "--user", "ada", "--details")
    ran = await wakeful(*wanted, "--json", address=address)
    assert json.loads(ran.out) == detailed.model_dump(mode="json")
    ran = await wakeful("list", "--tenant", thread_id, "--metadata", "order=7", address=address)
    assert (len(ran.out.splitlines()), f'· tenant {thread_id} · user ada · {{"order":"7"}}' in ran.out) == (4, True)
    ran = await wakeful("list", "--tenant", thread_id, "--limit", "1", address=address)
    assert (len(ran.out.splitlines()), ran.err) == (3, "there are more: --limit 2 lists more of them\n")
