"""Every way a provider can fail, in every wire format, on the real path: what the user gets.

The model of each test has a name of its own, so that no test meets a circuit breaker that another one opened.
"""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.fake_provider.models import INTERRUPTED, continuing
from tests.support.fake_provider.script import (
    HANG,
    HTML_PAGE,
    OVERFLOW,
    RESET,
    SILENCE,
    Answer,
    Call,
    Cut,
    End,
    ErrorEvent,
    Fault,
    Reply,
    Reset,
    Stall,
    Status,
    Writing,
    garbage_json,
    malformed_sse,
    unknown_event,
)
from tests.support.fake_provider.server import FakeProvider
from tests.support.waiting import until
from wakeful.client.client import Client
from wakeful.contract.events import StreamReset
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import AudioBlock, Base64Source, InputMessage, Visibility
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.runs import RunResult, ThreadMode

TEXT = "Füchse 🦊 springen über den faulen Hund, immer wieder, bis es dämmert und niemand mehr zählt."
WHOLE = Answer(TEXT)


async def run(client: Client, agent: str, thread_id: str) -> RunResult:
    return await client.run(
        agent, "Tell me.", thread_id=thread_id, overrides=InferenceOverrides(upstream_model=thread_id)
    )


BEFORE_THE_FIRST_TOKEN: dict[str, Reply] = {
    "429 with Retry-After": Status(429, retry_after=1),
    "500": Status(500),
    "503": Status(503),
    "529": Status(529),
    "hang before headers": HANG,
    "headers and then nothing": SILENCE,
    "reset before anything": RESET,
    "an HTML page": HTML_PAGE,
}


@pytest.mark.parametrize("fault", BEFORE_THE_FIRST_TOKEN.values(), ids=BEFORE_THE_FIRST_TOKEN.keys())
async def test_a_call_that_fails_before_the_first_token_is_retried(
    client: Client, provider: FakeProvider, wire: str, fault: Reply, thread_id: str
) -> None:
    provider.will(fault, WHOLE)
    result = await run(client, wire, thread_id)
    assert (result.status_reason, result.response) == ("natural", TEXT)
    assert len(provider.asked) == 2
    assert not provider.violations


async def test_the_providers_retry_after_is_respected(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.will(Status(429, retry_after=1), Status(503, retry_after=datetime.now(UTC) + timedelta(seconds=4)), WHOLE)
    result = await run(client, wire, thread_id)
    assert result.response == TEXT
    first, second, third = provider.asked
    assert second.at - first.at >= 1
    assert third.at - first.at >= 2.5


MID_STREAM: dict[str, Fault] = {
    "stall": Stall(4),
    "reset": Reset(4),
    "closed": Cut(4),
    "ended early": End(4),
    "error event": ErrorEvent(4),
    "garbage JSON": garbage_json(4),
}


@pytest.mark.parametrize("fault", MID_STREAM.values(), ids=MID_STREAM.keys())
async def test_an_interrupted_answer_is_continued(
    client: Client, provider: FakeProvider, wire: str, fault: Fault, thread_id: str
) -> None:
    """B-132, H-13"""
    provider.will(Answer(TEXT, faults=(fault,)), continuing(WHOLE))
    result = await run(client, wire, thread_id)
    assert (result.status_reason, result.response) == ("natural", TEXT)
    second = provider.asked[1]
    assert len(provider.asked) == 2
    assert second.turns[-2:][0].text == TEXT[: 4 * 8]
    assert INTERRUPTED in second.turns[-1].text
    transcript = await client.transcript(thread_id)
    assert [message.text for message in transcript] == ["Tell me.", TEXT]
    assert result.usage.completion_tokens == 7 or wire == "anthropic"
    assert not provider.violations


async def test_an_answer_is_continued_only_so_often(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    """B-137"""
    provider.always(continuing(Answer(TEXT, faults=(Reset(2),))))
    result = await run(client, wire, thread_id)
    assert result.status_reason.startswith("error:inference failed: stream interrupted (connection reset)")
    assert len(provider.asked) == 3


async def test_an_answer_of_which_nothing_is_usable_is_restarted(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    """B-132"""
    half = Answer(calls=(Call("c1", "add", '{"a": 1, "b": 2}'),), faults=(Reset(1),))
    provider.will(half, WHOLE)
    result = await run(client, wire, thread_id)
    assert result.response == TEXT
    assert len(provider.asked[1].turns) == 1
    events = [record.event async for record in client.watch(thread_id)]
    assert [event.reason for event in events if isinstance(event, StreamReset)] == ["connection reset"]


async def test_complete_calls_are_not_requested_again(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    """B-132"""
    calls = (Call("c1", "add", '{"a": 1, "b": 2}'), Call("c2", "add", '{"a": 3, "b": 4}'))
    provider.will(Answer(calls=calls, faults=(Reset(3),)), WHOLE)
    result = await run(client, wire, thread_id)
    assert result.response == TEXT
    transcript = await client.transcript(thread_id)
    assert [call.id for message in transcript for call in message.tool_calls] == ["1-1"]
    assert [message.text for message in transcript if message.tool_call_id] == ["3"]
    assert len(provider.asked) == 2
    assert "add" in provider.asked[1].turns[-1].text  # a note names the call that was lost


WRITINGS: dict[str, Answer] = {
    "characters split over writes": Answer(TEXT, writing=Writing("split_characters")),
    "one huge chunk": Answer(TEXT * 2_000, chunk=100_000, writing=Writing("whole")),
    "byte by byte": Answer(TEXT, writing=Writing("byte")),
    "CRLF": Answer(TEXT, writing=Writing(line_end="\r\n")),
    "CR": Answer(TEXT, writing=Writing(line_end="\r")),
    "a byte order mark": Answer(TEXT, writing=Writing(bom=True)),
    "keepalives": Answer(TEXT, writing=Writing(keepalives=True)),
    "lines that are no events": Answer(TEXT, faults=(malformed_sse(3),)),
    "an event of tomorrow": Answer(TEXT, faults=(unknown_event(3),)),
}


@pytest.mark.parametrize("answer", WRITINGS.values(), ids=WRITINGS.keys())
async def test_how_the_bytes_are_split_does_not_matter(
    client: Client, provider: FakeProvider, wire: str, answer: Answer, thread_id: str
) -> None:
    provider.will(answer)
    result = await run(client, wire, thread_id)
    assert (result.status_reason, result.response) == ("natural", answer.text)
    assert len(provider.asked) == 1


PERMANENT: dict[str, tuple[Reply, str]] = {
    "401": (Status(401), "check the API key"),
    "404": (Status(404), "check the model's name"),
    "400": (Status(400, "invalid"), "change the request"),
    "overflow": (OVERFLOW, "shorten the conversation"),
    "filtered": (Answer("I", stop="filtered"), "content filter"),
}


@pytest.mark.parametrize(("fault", "advice"), PERMANENT.values(), ids=PERMANENT.keys())
async def test_a_permanent_failure_ends_the_run_at_once_and_says_what_to_do(
    client: Client, provider: FakeProvider, wire: str, fault: Reply, advice: str, thread_id: str
) -> None:
    provider.will(fault)
    result = await run(client, wire, thread_id)
    assert result.status_reason.startswith("error:inference failed: ")
    assert advice in result.status_reason
    assert len(provider.asked) == 1


async def test_audio_for_a_model_that_reads_text_is_left_out_and_ends_no_run(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.always(WHOLE)
    audio = AudioBlock(source=Base64Source(media_type="audio/wav", data="AAAA"))
    await client.start(wire, [InputMessage(content=(audio,))], thread_id=thread_id, mode=ThreadMode.THREAD)
    await until(client, thread_id, lambda view: view.runs == 1 and view.result is not None)
    await client.send(thread_id, "Did you hear me?")
    view = await until(client, thread_id, lambda view: view.runs == 2 and view.result is not None)
    assert view.result is not None
    assert view.result.status_reason == "natural"
    assert "[A block of type 'audio' was left out" in provider.asked[0].turns[0].text
    assert (await client.transcript(thread_id))[0].content == (audio,)  # the thread keeps it


async def test_a_provider_that_stays_down_ends_the_run_with_its_last_error(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.always(Status(503, message="we are closed"))
    result = await run(client, wire, thread_id)
    assert result.status_reason.startswith("error:inference failed: ")
    assert "we are closed" in result.status_reason
    assert len(provider.asked) == 3


async def test_another_model_answers_when_the_first_keeps_failing(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.will(Status(500), Status(500), Status(500), WHOLE)
    thread = await client.start(
        f"{wire}-backed", "Tell me.", thread_id=thread_id, overrides=InferenceOverrides(upstream_model=thread_id)
    )
    result = await client.result(thread)
    assert result.response == TEXT
    assert [asked.model for asked in provider.asked[:3]] == [thread_id] * 3
    assert provider.asked[3].format != provider.asked[0].format


async def test_a_conversation_that_overflows_is_cut(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    messages = [InputMessage(content=f"{number}: {'word ' * 60}") for number in range(40)]
    provider.will(OVERFLOW, WHOLE)
    result = await client.run(f"{wire}-window", messages, thread_id=thread_id)
    assert result.response == TEXT
    whole, cut = (json.dumps(asked.body) for asked in provider.asked)
    assert len(cut) < 0.7 * len(whole)
    assert "39: word" in cut
    assert len(await client.transcript(thread_id)) == 41

    provider.always(OVERFLOW)
    result = await client.run(wire, messages, thread_id=f"{thread_id}-2")
    assert "shorten the conversation" in result.status_reason
    assert len(json.dumps(provider.asked[-1].body)) < 0.1 * len(whole)


async def test_an_answer_that_hits_the_token_limit_is_continued(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.will(Answer("Once upon", stop=StopReason.MAX_TOKENS), Answer(" a time."))
    result = await run(client, wire, thread_id)
    assert result.response == " a time."
    shown = [message for message in await client.transcript(thread_id) if message.visibility is Visibility.ALL]
    assert [message.text for message in shown] == ["Tell me.", "Once upon", " a time."]
    assert "cut off at the output token limit" in provider.asked[1].turns[-1].text


@pytest.mark.parametrize("stop", [StopReason.MAX_TOKENS, StopReason.TOOL_USE], ids=["cut off", "malformed"])
async def test_a_call_with_incomplete_arguments_is_never_executed(
    client: Client, provider: FakeProvider, wire: str, stop: StopReason, thread_id: str
) -> None:
    """B-113"""
    provider.will(Answer("Adding.", calls=(Call("c1", "add", '{"a": 1, "b"'),), stop=stop), WHOLE)
    result = await run(client, wire, thread_id)
    assert result.response == TEXT
    transcript = await client.transcript(thread_id)
    assert not [call for message in transcript for call in message.tool_calls]
    assert len(provider.asked) == 2
    assert not provider.violations


async def test_an_answer_of_the_wrong_type_is_corrected_once(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.will(Answer('{"total": 3}'), Answer('```json\n{"total": 4}\n```'))
    result = await run(client, f"{wire}-typed", thread_id)
    assert (result.status_reason, result.output) == ("natural", {"total": 4})
    assert "odd sums are not allowed" in provider.asked[1].turns[-1].text

    provider.will(Answer('{"tot', stop=StopReason.MAX_TOKENS), Answer('al": 6}'))
    result = await run(client, f"{wire}-typed", f"{thread_id}-1")
    assert (result.status_reason, result.output) == ("natural", {"total": 6})

    provider.will(Answer("three"), Answer('{"total": "three"}'))
    result = await run(client, f"{wire}-typed", f"{thread_id}-2")
    assert result.status_reason.startswith("error:the answer does not match the agent's output type: at $.total")
    assert result.output is None


async def test_overrides_of_a_run_reach_the_provider(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    provider.will(WHOLE)
    overrides = InferenceOverrides(upstream_model=thread_id, temperature=0.5, max_tokens=99)
    await client.run(wire, "Tell me.", thread_id=thread_id, overrides=overrides)
    body = provider.asked[0].body
    limits = {"chat": "max_tokens", "responses": "max_output_tokens", "anthropic": "max_tokens"}
    assert (body["model"], body["temperature"], body[limits[wire]]) == (thread_id, 0.5, 99)


async def test_a_healthy_provider_answers_without_delay(
    client: Client, provider: FakeProvider, wire: str, thread_id: str
) -> None:
    """Two steps: reasoning and a call, then its result and the answer."""
    provider.will(
        Answer("I add.", reasoning="Two numbers.", calls=(Call("c1", "add", '{"a": 1, "b": 2}'),)), Answer("It is 3.")
    )
    started = time.monotonic()
    result = await run(client, wire, thread_id)
    assert time.monotonic() - started < 20
    assert (result.response, result.steps) == ("It is 3.", 2)
    second = json.dumps(provider.asked[1].body)
    assert '"3"' in second
    assert '"c1"' in second  # the provider's own id of the call
    assert '"1-1"' not in second
    assert not provider.violations
