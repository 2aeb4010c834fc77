"""The server stops while a run is suspended, and comes back with the same file: nothing is lost."""

from pathlib import Path

from tests.support.app import registry
from tests.support.waiting import until_status
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.connection import embedded_server
from wakeful.worker import running_worker


async def test_a_decision_for_a_run_that_slept_through_a_restart_of_the_server(tmp_path: Path, thread_id: str) -> None:
    """The decision comes before any worker does."""
    database = tmp_path / "wakeful.db"
    async with embedded_server(database=database, ui=False) as server:
        client = Client(server.client)
        async with running_worker(server.client, registry):
            await client.start("tester", "approve", thread_id=thread_id)
            view = await until_status(client, thread_id, RunStatus.WAITING)
    (ticket,) = view.pending
    async with embedded_server(database=database, ui=False) as server:
        client = Client(server.client)
        (entry,) = [entry async for entry in client.inbox()]
        assert (entry.ticket, entry.agent_id) == (f"{thread_id}/{ticket.pending.id}", "tester")
        assert (entry.unknown, entry.message) == (None, ticket.suspension.message)  # no worker has to run
        await client.decide(thread_id, ticket.pending.id, "resume", result="yes", actor="ann")
        async with running_worker(server.client, registry):
            result = await client.result(thread_id)
            assert [entry async for entry in client.inbox()] == []
    assert result.response == 'approval gave {"did":"launch","said":"yes","reason":null}'
