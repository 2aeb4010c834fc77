"""Local tools: inside the workflow's own task, with no activity of their own in history."""

import pytest

from wakeful import ConfigurationError, tool
from wakeful.client.client import Client


async def test_a_local_tool_is_called_like_any_other(client: Client, thread_id: str) -> None:
    assert (await client.run("parallel", "glance", thread_id=thread_id)).response == "again"
    said = [message.text for message in await client.transcript(thread_id) if message.tool_call_id]
    assert said == ["near", "far", "again"]


async def test_a_local_tool_schedules_no_activity(usual_client: Client, thread_id: str) -> None:
    await usual_client.run("parallel", "glance", thread_id=thread_id)
    history = await usual_client.handle(thread_id).fetch_history()
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert scheduled == ["resolve_agent", "infer", "infer", "infer"]


def test_a_tool_that_may_not_be_repeated_cannot_be_local() -> None:
    with pytest.raises(ConfigurationError, match="tool 'pay' is local: it must be read_only or idempotent"):

        @tool(local=True)
        def pay() -> None: ...
