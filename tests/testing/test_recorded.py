"""Recorded answers: recorded once from a provider's API over HTTP, and replayed without it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.activities.providers.calls import HELLO, parts, text, user
from tests.support.fake_provider.script import Answer, Call, Cut
from tests.support.fake_provider.server import FakeProvider, fake_provider
from wakeful import (
    Agent,
    ConfigurationError,
    ModelRequest,
    ModelResponse,
    OpenAIResponses,
    ProviderError,
    Registry,
    RunResult,
    StopReason,
    ToolCall,
    Usage,
    tool,
)
from wakeful.contract.messages import Base64Source, ImageBlock, Message, Role, ThinkingBlock
from wakeful.contract.streaming import StartPart, StreamPart, TextPart
from wakeful.testing import RecordedModel, UnexpectedModelCall, WakefulRuntime

KEY = "sk-canary-1234567890"
THINKING = Answer(reasoning="Let me look.", calls=(Call("fc_77", "stock", '{"item": "cup"}'),), chunk=6)
ANSWER = Answer(text="We have 3 cups.", chunk=6, usage=Usage(prompt_tokens=20, completion_tokens=5, total_tokens=25))


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider(validate=False) as running:
        yield running


def live(fake: FakeProvider) -> OpenAIResponses:
    return OpenAIResponses(api_key=KEY, base_url=fake.responses_url, timeout=5)


@tool(read_only=True)
def stock(item: str) -> int:
    """How many pieces of an item are in stock."""
    return 3


def registry_of(model: RecordedModel, instructions: str = "Be brief.") -> Registry:
    return Registry(agents=[Agent(id="buyer", instructions=instructions, tools=[stock])], models={"default": model})


async def ask(wakeful_runtime: WakefulRuntime, registry: Registry) -> RunResult:
    async with wakeful_runtime(registry) as client:
        return await client.run("buyer", "How many cups?")


async def test_a_run_that_was_recorded_runs_again_without_the_provider(
    wakeful_runtime: WakefulRuntime, fake: FakeProvider, tmp_path: Path
) -> None:
    path = tmp_path / "tests/buyer.json"
    fake.will(THINKING, ANSWER)
    recorded = await ask(wakeful_runtime, registry_of(RecordedModel(path, live=live(fake), record=True)))
    assert recorded.response == "We have 3 cups."
    model = RecordedModel(path, live=live(fake))
    replayed = await ask(wakeful_runtime, registry_of(model))
    assert len(fake.asked) == 2, "the second run has called no provider"
    same = {"response", "steps", "usage", "status_reason"}
    assert replayed.model_dump(include=same) == recorded.model_dump(include=same)
    assert [len(request.messages) for request in model.requests] == [1, 3]
    assert KEY not in path.read_text()


async def test_a_stream_is_replayed_part_by_part(fake: FakeProvider, tmp_path: Path) -> None:
    path = tmp_path / "buyer.json"
    fake.will(THINKING)
    arrived = await parts(RecordedModel(path, live=live(fake), record=True))
    replayed = await parts(RecordedModel(path))
    assert len(replayed) > 8
    assert [without_ids(part) for part in replayed] == [without_ids(part) for part in arrived]


def without_ids(part: StreamPart) -> StreamPart | tuple[str, str]:
    return (
        (type(part).__name__, getattr(part, "name", "")) if isinstance(part, StartPart) or hasattr(part, "id") else part
    )


async def test_the_file_is_readable_and_the_same_whenever_it_is_recorded(fake: FakeProvider, tmp_path: Path) -> None:
    request = HELLO.model_copy(update={"instructions": "Be brief."})
    fake.will(*(Answer(text="Hello!", calls=(Call(id, "stock"),), usage=None) for id in ("fc_1", "fc_2")))
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for path in (first, second):
        await parts(RecordedModel(path, live=live(fake), record=True), request)
    assert first.read_text() == second.read_text()
    assert first.read_text() == FILE


FILE = """\
{
  "format": 1,
  "recordings": [
    {
      "request": {
        "model": "test-model",
        "instructions": "Be brief.",
        "messages": [
          {
            "role": "user",
            "text": "hello"
          }
        ]
      },
      "answer": [
        {"start": {"model": "test-model"}},
        {"text": {"text": "Hello!"}},
        {"call": {"index": 0, "id": "call_bfaacb5e_1", "name": "stock"}},
        {"arguments": {"index": 0, "text": "{}"}},
        {"call_end": {"index": 0}},
        {"stop": {"reason": "ToolUse"}}
      ]
    }
  ]
}
"""


async def test_recordings_are_in_the_order_of_their_conversations(fake: FakeProvider, tmp_path: Path) -> None:
    path = tmp_path / "buyer.json"
    short, long = HELLO, HELLO.model_copy(update={"messages": (user(text("a")), user(text("b")))})
    fake.always(ANSWER)
    await parts(RecordedModel(path, live=live(fake), record=True), long)
    await parts(RecordedModel(path, live=live(fake), record=True), short)
    assert [len(each["request"]["messages"]) for each in json.loads(path.read_text())["recordings"]] == [1, 2]


async def test_a_request_that_is_not_recorded_fails_the_test_and_shows_the_difference(
    wakeful_runtime: WakefulRuntime, fake: FakeProvider, tmp_path: Path
) -> None:
    path = tmp_path / "buyer.json"
    fake.will(THINKING, ANSWER)
    await ask(wakeful_runtime, registry_of(RecordedModel(path, live=live(fake), record=True)))
    model = RecordedModel(path)
    with pytest.raises(UnexpectedModelCall) as raised:
        await ask(wakeful_runtime, registry_of(model, instructions="Be very brief."))
    said = str(raised.value)
    assert said.startswith(f"{str(path)!r} has no answer to this request: record it with WAKEFUL_RECORD=1, or delete")
    assert '\n-  "instructions": "Be brief.",\n+  "instructions": "Be very brief.",\n' in said
    assert "\n  user: How many cups?" in said
    assert len(model.requests) == 1, "it is not retried"


async def test_an_empty_file_and_a_long_difference_are_errors_that_say_so(fake: FakeProvider, tmp_path: Path) -> None:
    path = tmp_path / "buyer.json"
    with pytest.raises(UnexpectedModelCall, match="the file has no recordings"):
        await parts(RecordedModel(path))
    fake.will(ANSWER)
    await parts(RecordedModel(path, live=live(fake), record=True))
    many = HELLO.model_copy(update={"messages": tuple(user(text(str(n))) for n in range(50))})
    with pytest.raises(UnexpectedModelCall, match=r"\(\d+ more lines\)"):
        await parts(RecordedModel(path), many)


async def test_secrets_do_not_reach_the_file(
    fake: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hunter2-hunter2")
    monkeypatch.setenv("KEYBOARD", "qwerty-qwerty")
    path = tmp_path / "buyer.json"
    asked = HELLO.model_copy(update={"messages": (user(text("my key is hunter2-hunter2, on qwerty-qwerty")),)})
    secret = Answer(text="hunter2-hunter2 and Rosebud", calls=(Call("1", "f", '{"k": "hunter2-hunter2"}'),), chunk=4)
    fake.will(secret)
    arrived = await parts(RecordedModel(path, live=live(fake), record=True, secrets=["Rosebud"]), asked)
    assert "".join(part.text for part in arrived if isinstance(part, TextPart)) == "hunter2-hunter2 and Rosebud"
    written = path.read_text()
    assert not [secret for secret in ("hunter2", "Rosebud", KEY) if secret in written]
    assert "my key is [redacted], on qwerty-qwerty" in written
    replayed = await parts(RecordedModel(path), asked)
    assert TextPart("[redacted] and [redacted]") in replayed


async def test_a_secret_of_several_lines_does_not_reach_the_file_as_json(fake: FakeProvider, tmp_path: Path) -> None:
    """The arguments of a call are JSON, in which a line ends with a backslash and an n."""
    path, secret = tmp_path / "buyer.json", 'BEGIN\n"schlüssel"\nEND'
    for ensure_ascii in (True, False):
        fake.will(Answer(calls=(Call("1", "f", json.dumps({"k": secret}, ensure_ascii=ensure_ascii)),), chunk=4))
        await parts(RecordedModel(path, live=live(fake), record=True, secrets=[secret]))
        assert json.loads(path.read_text())["recordings"][0]["answer"].count(
            {"arguments": {"index": 0, "text": '{"k": "[redacted]"}'}}
        )
        path.unlink()


async def test_an_answer_that_is_interrupted_is_not_recorded(fake: FakeProvider, tmp_path: Path) -> None:
    path = tmp_path / "buyer.json"
    fake.will(Answer(text="We have 3 cups.", faults=(Cut(1),)))
    with pytest.raises(ProviderError):
        await parts(RecordedModel(path, live=live(fake), record=True))
    assert not path.exists()


async def test_answers_are_recorded_if_the_environment_says_so(
    fake: FakeProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "buyer.json"
    monkeypatch.setenv("WAKEFUL_RECORD", "1")
    fake.will(ANSWER)
    for _ in range(2):
        await parts(RecordedModel(path, live=live(fake)))
    assert len(fake.asked) == 1, "what is recorded is not asked again"
    with pytest.raises(ConfigurationError, match="cannot be recorded: pass `live`"):
        RecordedModel(path)
    RecordedModel(path, record=False)


class Whole:
    """A provider that does not stream."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(
            model="m-1",
            text="Looking.",
            thinking=(ThinkingBlock(thinking="hm", signature="sig"),),
            tool_calls=(ToolCall(id="c1", name="stock", arguments={"item": "cup"}), ToolCall(id="c2", name="clock")),
            stop_reason=StopReason.TOOL_USE,
            usage=Usage(total_tokens=9),
            request_id="req_1",
        )


async def test_a_provider_that_does_not_stream_is_recorded_too(tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    arrived = await parts(RecordedModel(path, live=Whole(), record=True))
    replayed = await parts(RecordedModel(path))
    assert [without_ids(part) for part in replayed] == [without_ids(part) for part in arrived]
    assert [type(part).__name__ for part in replayed] == [
        *("StartPart", "ReasoningPart", "TextPart", "CallStartPart", "CallArgumentsPart", "CallEndPart"),
        *("CallStartPart", "CallArgumentsPart", "CallEndPart", "UsagePart", "StopPart"),
    ]


async def test_ids_do_not_count_but_everything_that_the_model_reads_does(tmp_path: Path) -> None:
    path = tmp_path / "whole.json"

    def asked(ids: str, *, result: str = "3", picture: str = "iVBO") -> ModelRequest:
        picture_of = ImageBlock(source=Base64Source(media_type="image/png", data=picture))
        answer = Message(id=f"{ids}2", role=Role.ASSISTANT, tool_calls=(ToolCall(id=f"{ids}c", name="stock"),))
        returned = Message(id=f"{ids}3", role=Role.TOOL, content=(text(result),), tool_call_id=f"{ids}c")
        return HELLO.model_copy(update={"messages": (user(text("How many?"), picture_of), answer, returned)})

    recorded = await parts(RecordedModel(path, live=Whole(), record=True), asked("a"))
    assert len(await parts(RecordedModel(path), asked("b"))) == len(recorded)
    for other in (asked("a", result="4"), asked("a", picture="R0lG")):
        with pytest.raises(UnexpectedModelCall):
            await parts(RecordedModel(path), other)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"format": 2, "recordings": []}', "it has format 2, and this release reads 1"),
        ('{"format": 1, "recordings": [{"request": {}, "answer": [{"song": {}}]}]}', "KeyError: 'song'"),
        ('{"format": 1, "recordings": [{"request": {}, "answer": [{"text": {}, "stop": {}}]}]}', "several names"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "buyer.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=f"the recordings in .* cannot be read: .*{why}"):
        RecordedModel(path)
