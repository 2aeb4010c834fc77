"""What commands that talk to Temporal share: a client, a status with a timeout, and options written as JSON."""

import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import JsonValue

from wakeful.cli import options
from wakeful.cli.process import exit_broken_pipe, run
from wakeful.client.client import Client
from wakeful.client.queries import PATIENCE
from wakeful.connection import Address, connect
from wakeful.contract.errors import CallerError
from wakeful.contract.views import StatusView

T = TypeVar("T")


def with_client(
    address: str | None,
    namespace: str | None,
    use: Callable[[Client], Awaitable[T]],
    *,
    task_queue: str = options.TASK_QUEUE,
) -> T:
    """Run a coroutine with a client of the cluster that the options name."""

    async def connected() -> T:
        try:
            temporal = await connect(Address(address=address, namespace=namespace))
            return await use(Client(temporal, task_queue=task_queue))
        except BrokenPipeError:
            exit_broken_pipe()

    return run(connected())


async def read_status(client: Client, thread_id: str) -> StatusView:
    """A thread's status.

    Raises:
        NoAnswer: no worker answered in time.
    """
    return await client.status(thread_id, within=PATIENCE)


def parse_json(option: str, text: str | None) -> JsonValue:
    """The value of an option that is written as JSON."""
    if text is None:
        return None
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        raise CallerError(f"{option} is not JSON: {error}; a text needs quotes, for example '\"yes\"'") from error
    return value
