"""docs/tools.md tells the truth: its code runs, and the model reads what the page says."""

import inspect
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import JsonValue
from temporalio.client import Client as TemporalClient

from tests.conftest import worker_settings
from tests.support.app import Recording
from tests.support.processes import ROOT
from wakeful import ImageBlock, Registry, call, say, tool
from wakeful.client.client import Client
from wakeful.worker import running_worker

PAGE = (ROOT / "docs/tools.md").read_text()
(SCHEMA,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

CALLS: dict[str, tuple[dict[str, JsonValue], str]] = {
    "forecast": ({"city": "Rome", "days": 1}, '{"day 1":21.5}'),
    "find_order": ({"number": "seven"}, "Execution failed: 'seven' is no number of an order: ask the user for it"),
    "ship": ({"order": "7"}, "shipped order 7"),
    "track": ({"order": "7"}, "order 7 is in Bologna, says attempt 3"),
    "import_pages": ({}, "imported pages 7 to 10"),
    "cancel_order": ({"number": "7"}, "order 7 is cancelled"),
    "chart": ({"city": "Rome"}, 'Temperatures in Rome:\n{"mean":21.5}'),
}
MODEL = Recording(
    [say("none")], when={f"^{name}$": [call(name, **given), say("{result}")] for name, (given, _) in CALLS.items()}
)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the code of the page defines."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    return names


@pytest.fixture(scope="module")
async def client(temporal: TemporalClient, page: dict[str, Any]) -> AsyncIterator[Client]:
    registry = Registry(agents=[page["weather"], page["clerk"]], models={"default": MODEL})
    settings = worker_settings(task_queue="tools-docs", sweep_interval=None)
    async with running_worker(temporal, registry, settings), Client(temporal, task_queue="tools-docs") as client:
        yield client


def test_the_schema_is_the_one_of_the_page(page: dict[str, Any]) -> None:
    assert page["forecast"].descriptor.parameters == json.loads(SCHEMA)
    assert page["forecast"].descriptor.description == "The expected temperature of each day."
    assert page["forecast"]("Rome", days=1) == {"day 1": 21.5}


@pytest.mark.parametrize("name", CALLS)
async def test_the_model_reads_what_the_page_says(client: Client, thread_id: str, name: str) -> None:
    result = await client.run("clerk", name, thread_id=thread_id)
    assert (result.response, result.steps) == (CALLS[name][1], 2)
    request = MODEL.requests[-1]
    assert request.instructions == "You work at a desk. Open orders: 1."
    [read] = [message for message in request.messages if message.tool_call_id]
    assert [type(block) for block in read.content[1:]] == ([ImageBlock] if name == "chart" else [])


async def test_an_unbound_method_is_refused(page: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="tool 'cancel_order' is a method of Desk that is not bound to its instance"):
        page["clerk"].model_validate({"id": "a", "tools": [page["Desk"].cancel_order]})


def test_the_table_has_every_option() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.partition("## All options")[2], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {*inspect.signature(tool).parameters} - {"function"}
