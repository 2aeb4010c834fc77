"""What commands that talk to Temporal share: a client, a status with a timeout, and options written as JSON.

It connects before it imports the client: most of that is not needed for a question such as `wakeful status`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from wakeful.cli import options
from wakeful.cli.process import exit_broken_pipe, run

if TYPE_CHECKING:
    from pydantic import JsonValue
    from temporalio.client import Client as TemporalClient

    from wakeful.client.approvals import PendingDecision
    from wakeful.client.client import Client
    from wakeful.client.thread_reader import ThreadReader
    from wakeful.client.undelivered import ThreadUndelivered
    from wakeful.contract.views import StatusView

T = TypeVar("T")

MOST_NAMED = 3
NO_CODEC = "this client has no codec for it"

DURATION_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}

TIMEOUT_VARIABLE = "WAKEFUL_QUERY_TIMEOUT"


def with_client(
    cluster: options.Cluster, use: Callable[[Client], Awaitable[T]], *, task_queue: str = options.TASK_QUEUE
) -> T:
    """Run a coroutine with a client of the cluster that the options name."""

    async def go(temporal: TemporalClient) -> T:
        from wakeful.client.client import Client

        # Not closed: what the client keeps in memory ends with the process.
        return await use(Client(temporal, task_queue=task_queue))

    return with_temporal(cluster, go)


def with_temporal(cluster: options.Cluster, use: Callable[[TemporalClient], Awaitable[T]]) -> T:
    """Run a coroutine with Temporal's client of the cluster that the options name."""
    from wakeful.connection import Address, connect
    from wakeful.undecodable import decoding

    where = Address(address=cluster.address, namespace=cluster.namespace, client=cluster.client_factory)

    # The SDK logs, with a traceback, that a history does not replay here: the command says so in a line.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)

    flush = export_traces()

    async def go() -> T:
        try:
            temporal = await connect(where)
            with decoding(temporal.data_converter, "what Temporal has"):
                return await use(temporal)
        except BrokenPipeError:
            exit_broken_pipe()
        finally:
            flush()

    return run(go())


def export_traces() -> Callable[[], None]:
    """Export the spans of this command, if OpenTelemetry's variables say where to; returns what exports the last."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        return lambda: None
    from wakeful.telemetry.setup import set_up

    return set_up(os.environ).flush


def exit_if_all_undecodable(listed: Sequence[PendingDecision | ThreadUndelivered]) -> None:
    """A list in which one thread cannot be decoded is of use; one in which none can is an error.

    Raises:
        CannotDecode: that is so.
    """
    from wakeful.contract.errors import CannotDecode

    if listed and all(each.undecodable for each in listed):
        threads = ", ".join(dict.fromkeys(repr(each.thread_id) for each in listed[:MOST_NAMED]))
        raise CannotDecode(f"everything that was found ({threads}{', …' * (len(listed) > MOST_NAMED)})", NO_CODEC)


async def read_status(reader: ThreadReader, thread_id: str) -> StatusView:
    """A thread's status.

    Raises:
        NoAnswer: no worker has started it; or its history does not replay here, and no worker answered in time.
    """
    return await reader.status(thread_id, within=query_timeout())


def query_timeout() -> timedelta:
    """How long a command waits for a worker: `WAKEFUL_QUERY_TIMEOUT` seconds, if you set it."""
    from wakeful.client.queries import QUERY_TIMEOUT
    from wakeful.contract.errors import ConfigurationError

    written = os.environ.get(TIMEOUT_VARIABLE)
    if not written:
        return QUERY_TIMEOUT
    try:
        seconds = float(written)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigurationError([f"{TIMEOUT_VARIABLE} is {written!r}; write a number of seconds"])
    return timedelta(seconds=seconds)


def parse_json(option: str, text: str | None) -> JsonValue:
    """The value of an option that is written as JSON."""
    from wakeful.contract.errors import CallerError

    if text is None:
        return None
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        raise CallerError(f"{option} is not JSON: {error}; a text needs quotes, for example '\"yes\"'") from error
    return value


def parse_duration(option: str, text: str) -> timedelta:
    """The value of an option that is a length of time: `90s`, `15m`, `6h`, `1d`."""
    from wakeful.contract.errors import CallerError

    number, unit = text[:-1], DURATION_UNITS.get(text[-1:])
    if unit is None or not number.isdecimal() or not int(number):
        raise CallerError(
            f"{option} {text!r} is not a length of time: write a number and s, m, h or d, such as 90s or 1d"
        )
    return int(number) * unit


def parse_json_object(option: str, text: str | None) -> JsonValue:
    """The value of an option that is written as a JSON object."""
    from wakeful.contract.errors import CallerError

    if text is None:
        return None
    what = f"{option} must be a JSON object, with names and texts in double quotes, for example '{{\"pieces\": 1}}'"
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        raise CallerError(f"{what}: {error}") from error
    if not isinstance(value, dict):
        raise CallerError(f"{what}; it is {text}")
    return value
