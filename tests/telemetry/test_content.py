"""What people and models say, arguments and results are in no span and no metric, unless you ask for them."""

import json
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client as TemporalClient

from tests.support.telemetry import measured_process
from tests.support.traces import Spans, attributes_of
from tests.telemetry.conftest import working
from wakeful import Agent, Client, Registry, ScriptedModel, ToolContext, ToolError, call, say, tool
from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.contract.messages import (
    Base64Source,
    ImageBlock,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
)
from wakeful.telemetry import names
from wakeful.telemetry.content import LIMIT, VARIABLE, is_captured, request_content, response_content, tool_content

CANARY = "canary-4711"


@tool
def whisper(secret: str) -> str:
    """Return a secret."""
    return f"{secret} it is"


@tool
def shout(secret: str) -> str:
    """Raise a secret."""
    raise ToolError(f"no {secret}")


@tool
def crash(secret: str) -> str:
    """Raise it in another way."""
    raise ValueError(secret)


@tool
def ask(secret: str, ctx: ToolContext) -> str:
    """Ask about a secret."""
    if ctx.resume_input is None:
        ctx.suspend(f"May I say {secret}?")
    return str(ctx.resume_input.result)


TOOLS = [whisper, shout, crash, ask]

REGISTRY = Registry(
    agents=[
        Agent(id="keeper", instructions=f"Keep {CANARY}.", tools=TOOLS, delegates=["child"]),
        Agent(id="child", instructions=f"Keep {CANARY}, too.", model="child"),
    ],
    models={
        "default": ScriptedModel(
            [
                call("whisper", secret=CANARY) & call("shout", secret=CANARY) & call("crash", secret=CANARY),
                call("whisper", wrong=CANARY).unchecked(),
                call("agent_run_child", prompt=CANARY),
                call("ask", secret=CANARY),
                say(f"it is {CANARY}"),
            ]
        ),
        "child": ScriptedModel([say(f"{CANARY}!")]),
    },
)


@pytest.fixture(scope="module")
def reader(exporter: InMemorySpanExporter) -> Iterator[InMemoryMetricReader]:
    with measured_process() as reader:
        yield reader


@pytest.fixture(scope="module")
async def keepers(traced: TemporalClient, reader: InMemoryMetricReader) -> AsyncIterator[Client]:
    async with working(traced, REGISTRY, "keepers") as client:
        yield client


async def run(client: Client, thread_id: str) -> None:
    await client.start("keeper", f"tell me {CANARY}", thread_id=thread_id)
    async for pending in client.watch(thread_id):
        if pending.event.event_type == "run_finish":
            break
    await client.decide(thread_id, "4-1", "resume", result=CANARY, reason=CANARY)
    await client.result(thread_id)


async def test_a_canary_is_in_no_span_and_no_metric(
    keepers: Client, spans: Spans, reader: InMemoryMetricReader, thread_id: str
) -> None:
    await run(keepers, thread_id)
    found = await spans.of_thread(thread_id)
    assert {"execute_tool whisper", "execute_tool agent_run_child", "await_decision ask", "invoke_agent child"} <= {
        span.name for span in found
    }
    for span in found:
        assert CANARY not in span.to_json()
    data = reader.get_metrics_data()
    assert data is not None
    assert "wakeful.tool.calls" in data.to_json()
    assert CANARY not in data.to_json()


async def test_contents_are_recorded_in_the_form_of_the_conventions_if_the_variable_asks_for_it(
    traced: TemporalClient, spans: Spans, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "true")
    async with working(traced, REGISTRY, thread_id) as client:
        await run(client, thread_id)
        found = await spans.of_thread(thread_id)
    chat = next(attributes_of(span) for span in found if span.name == "chat default")
    assert json.loads(chat[names.SYSTEM_INSTRUCTIONS]) == [{"type": "text", "content": f"Keep {CANARY}."}]
    asked = {"role": "user", "parts": [{"type": "text", "content": f"tell me {CANARY}"}]}
    assert json.loads(chat[names.INPUT_MESSAGES]) == [asked]
    (answer,) = json.loads(chat[names.OUTPUT_MESSAGES])
    assert (answer["role"], answer["finish_reason"]) == ("assistant", "tool_call")
    assert answer["parts"][0]["name"] == "whisper"
    by_name = {span.name: attributes_of(span) for span in found}
    assert json.loads(by_name["execute_tool ask"][names.TOOL_ARGUMENTS]) == {"secret": CANARY}
    assert by_name["execute_tool ask"][names.TOOL_RESULT] == CANARY
    assert json.loads(by_name["execute_tool agent_run_child"][names.TOOL_ARGUMENTS]) == {"prompt": CANARY}
    assert CANARY in by_name["execute_tool agent_run_child"][names.TOOL_RESULT]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", False), ("false", False), ("NO_CONTENT", False), ("EVENT_ONLY", False), ("true", True), ("SPAN_ONLY", True)],
)
def test_the_variable_asks_for_contents(value: str, expected: bool) -> None:
    assert is_captured({VARIABLE: value}) is expected
    assert not is_captured({})


def test_every_kind_of_content_has_its_part() -> None:
    content = (
        TextBlock(text="look"),
        ThinkingBlock(thinking="hmm"),
        ToolUseBlock(id="1", name="see", input={"a": 1}),
        ToolResultBlock(tool_use_id="1", content="seen"),
        ImageBlock(source=UrlSource(url="http://picture")),
        ImageBlock(source=Base64Source(media_type="image/png", data="AAAA")),
    )
    request = ModelRequest(
        model="m",
        messages=(
            Message(id="1", role=Role.USER, content=content),
            Message(id="2", role=Role.TOOL, content=(TextBlock(text="done"),), tool_call_id="1-1"),
        ),
    )
    mixed, result = json.loads(request_content(request)[names.INPUT_MESSAGES])
    assert mixed["parts"] == [
        {"type": "text", "content": "look"},
        {"type": "reasoning", "content": "hmm"},
        {"type": "tool_call", "id": "1", "name": "see", "arguments": '{"a": 1}'},
        {"type": "tool_call_response", "id": "1", "response": "seen"},
        {"type": "uri", "modality": "image", "uri": "http://picture"},
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": ""},
    ]
    assert result == {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1-1", "response": "done"}]}
    response = ModelResponse(model="m", text="yes", reasoning="so", tool_calls=(ToolCall(id="1-1", name="see"),))
    (answer,) = json.loads(response_content(response, "stop")[names.OUTPUT_MESSAGES])
    assert [part["type"] for part in answer["parts"]] == ["reasoning", "text", "tool_call"]


def test_contents_are_cut_to_a_limit_and_the_newest_messages_are_kept() -> None:
    messages = tuple(
        Message(id=str(number), role=Role.USER, content=(TextBlock(text=f"{number}" * LIMIT),)) for number in range(3)
    )
    request = ModelRequest(model="m", instructions="x" * 2 * LIMIT, messages=messages)
    content = request_content(request)
    kept = json.loads(content[names.INPUT_MESSAGES])
    assert [message["parts"][0]["content"][0] for message in kept] == ["2"]
    assert all(len(text) < LIMIT + 200 for text in content.values())
    cut = tool_content({"text": "y" * 2 * LIMIT}, "z" * 2 * LIMIT)
    assert [len(text) for text in cut.values()] == [LIMIT + 1] * 2
