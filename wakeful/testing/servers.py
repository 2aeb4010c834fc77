"""A server that many tests share: each has a namespace of its own, so that their threads do not meet."""

import asyncio
import contextlib
import os
import queue
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.connection import RETENTION, embedded_server, ensure_search_attributes
from wakeful.contract.errors import ConnectionFailed
from wakeful.storage import data_converter

READY_WITHIN = timedelta(seconds=30)
"""How long a server may take to make a new namespace usable."""


@contextlib.contextmanager
def shared_server() -> Iterator[str]:
    """An embedded server whose address any thread and any event loop can use; it is up while the body runs."""
    server = _ServerThread()
    server.start()
    try:
        yield server.address()
    finally:
        server.stop()


class _ServerThread(threading.Thread):
    """Runs a server in an event loop of its own, because those of the tests come and go."""

    def __init__(self) -> None:
        super().__init__(name="wakeful-test-server", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._outcome: queue.Queue[str | Exception] = queue.Queue()

    def run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        try:
            async with embedded_server(ui=False, time_skipping=True) as server:
                self._outcome.put(server.address)
                await self._stopping.wait()
        except Exception as error:  # the thread's boundary: raised in the fixture instead
            self._outcome.put(error)

    def address(self) -> str:
        outcome = self._outcome.get()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # it could not start, and its loop is closed
            self._loop.call_soon_threadsafe(self._stopping.set)
        self.join()


async def fresh_namespace(address: str) -> Client:
    """A client of a new namespace on a running server, with the search attributes of Wakeful.

    Nothing of the environment changes where it connects to: a test must not reach the cluster that your shell names.

    Raises:
        ConnectionFailed: the server does not answer, or does not make the namespace usable in time.
    """
    name, retention = f"test-{uuid.uuid4().hex[:12]}", Duration()
    retention.FromTimedelta(RETENTION)
    try:
        client = await Client.connect(address, namespace=name, data_converter=await data_converter(os.environ))
    except RuntimeError as error:
        raise ConnectionFailed(f"cannot reach Temporal at {address}: {error}") from error
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=retention)
    )
    try:
        async with asyncio.timeout(READY_WITHIN.total_seconds()):
            await _until_usable(client)
    except TimeoutError as error:
        raise ConnectionFailed(f"namespace {name!r} at {address} is not usable after {READY_WITHIN}") from error
    return client


async def _until_usable(client: Client) -> None:
    """Wait for the services of the server, which learn of a new namespace one after another."""
    while True:
        with contextlib.suppress(RPCError):
            await client.count_workflows()
            if await ensure_search_attributes(client):
                return
        await asyncio.sleep(0.01)
