"""What commands that talk to Temporal have in common: a client, and values that are typed as JSON."""

import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import JsonValue

from wakeful.cli import options
from wakeful.cli.process import leave_unread, run
from wakeful.client.client import Client
from wakeful.connection import connect
from wakeful.contract.errors import CallerError

T = TypeVar("T")


def with_client(
    address: str | None,
    namespace: str | None,
    use: Callable[[Client], Awaitable[T]],
    *,
    task_queue: str = options.TASK_QUEUE,
) -> T:
    """Do something with a client of the cluster that the options name."""

    async def go() -> T:
        try:
            return await use(Client(await connect(options.where(address, namespace)), task_queue=task_queue))
        except BrokenPipeError:
            leave_unread()

    return run(go())


def json_value(option: str, text: str | None) -> JsonValue:
    """The value of an option that is written as JSON."""
    if text is None:
        return None
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        raise CallerError(f"{option} is not JSON: {error}; a text needs quotes, for example '\"yes\"'") from error
    return value
