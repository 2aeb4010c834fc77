"""Enums are given to the client by name; a name that does not exist is refused before anything is sent."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client as TemporalClient

from wakeful import CallerError, Client

REFUSED: dict[str, tuple[Callable[[Client, Any], Awaitable[object]], str]] = {
    "start": (lambda client, name: client.start("a", "hi", mode=name), "mode should be 'run' or 'thread', not 'bogus'"),
    "run": (
        lambda client, name: client.run("a", "hi", on_error=name),
        "on_error should be 'fail' or 'complete', not 'bogus'",
    ),
    "send": (
        lambda client, name: client.send("t", "hi", on_busy=name),
        "on_busy should be 'enqueue', 'reject', 'steer', 'interrupt' or 'rollback', not 'bogus'",
    ),
    "submit": (lambda client, name: client.submit("t", "hi", on_busy=name), "on_busy should be 'enqueue'"),
    "ask": (
        lambda client, name: client.ask("t", "hi", on_decision=name),
        "on_decision should be 'raise' or 'wait', not 'bogus'",
    ),
    "decide": (
        lambda client, name: client.decide("t", "1-1", name),
        "action should be 'resume' or 'cancel', not 'bogus'",
    ),
    "recover_undelivered": (
        lambda client, name: client.recover_undelivered("t", name),
        "action should be 'replay' or 'clear', not 'bogus'",
    ),
}


@pytest.mark.parametrize("verb", REFUSED)
async def test_a_name_that_does_not_exist_is_refused_with_those_that_do(client: Client, verb: str) -> None:
    call, problem = REFUSED[verb]
    with pytest.raises(CallerError, match=problem):
        await call(client, "bogus")


async def test_names_are_sent_as_an_enum_would_be(temporal: TemporalClient, thread_id: str) -> None:
    client = Client(temporal, task_queue=thread_id)  # which no worker serves: history has what is sent, and no more
    await client.start("clerk", "hello", thread_id=thread_id, mode="thread", on_error="complete")
    await client.send(thread_id, "stop", on_busy="interrupt", adapter="ag_ui")
    history = await client.handle(thread_id).fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes.input.payloads[0].data
    (sent,) = (each.workflow_execution_signaled_event_attributes for each in history.events if _is_signal(each))
    assert {"mode": "thread", "on_error": "complete"}.items() <= json.loads(started).items()
    assert {"on_busy": "interrupt", "adapter": "ag_ui"}.items() <= json.loads(sent.input.payloads[0].data).items()
    await client.handle(thread_id).terminate()


def _is_signal(event: HistoryEvent) -> bool:
    return event.HasField("workflow_execution_signaled_event_attributes")
