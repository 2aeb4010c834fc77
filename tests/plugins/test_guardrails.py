"""Guardrails: input and output are allowed, blocked or rewritten."""

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from tests.plugins.conftest import Serving
from tests.plugins.world import World, user
from tests.support.app import Recording
from tests.support.waiting import until
from wakeful import (
    Agent,
    AllowText,
    BlockText,
    Guardrails,
    GuardRule,
    Message,
    Registry,
    RewriteText,
    Role,
    RunStatus,
    ScriptedModel,
    TextBlock,
    TextCheck,
    TextRuling,
    Visibility,
    call,
    say,
    tool,
)
from wakeful.authoring.scripted import Turn
from wakeful.contract.messages import MessageMetadata
from wakeful.plugins.guardrails.checks import judge


@tool
def look(where: str) -> str:
    """Look."""
    return where


def no_bombs(text: str) -> TextRuling | None:
    return BlockText("no bombs") if "bomb" in text else None


async def in_capitals(text: str) -> TextRuling | None:
    return RewriteText(text.upper())


def agent(guard: Guardrails, settings: dict[str, Any] | None = None) -> Agent:
    return Agent(id="a", model="m", tools=[look], plugins=[guard], plugin_settings={"guardrails": settings or {}})


def world(guard: Guardrails, settings: dict[str, Any] | None = None, turn: Turn | None = None) -> World:
    return World(agent(guard, settings), [turn or say("hello")])


CARD = GuardRule(pattern=r"\b(\d{4})\d{12}\b", verdict="rewrite", replacement=r"\1…")
LETTER = GuardRule(
    pattern=r"\w", verdict="rewrite", reason="no letters"
)  # in Python, an accent is not a word character
ENDLESS = GuardRule(pattern="b|(a+)+$", verdict="rewrite", reason="no such list")
TEST = GuardRule(pattern="^test", verdict="allow")
BOMB = GuardRule(pattern="(?i)bomb", reason="no bombs")


@pytest.mark.parametrize(
    ("checks", "text", "ruling"),
    [
        ([], "x", AllowText()),
        ([BOMB], "fine", AllowText()),
        ([BOMB], "a BOMB", BlockText("no bombs")),
        ([GuardRule(pattern='"')], 'a "quote"', BlockText("a guardrail does not allow it")),
        ([TEST, BOMB], "test a bomb", AllowText()),
        ([BOMB, TEST], "test a bomb", BlockText("no bombs")),
        ([CARD], "card 1234567812345678!", RewriteText("card 1234…!")),
        ([in_capitals, no_bombs], "a bomb", RewriteText("A BOMB")),
        ([in_capitals, BOMB], "a bomb", BlockText("no bombs")),
        ([no_bombs, in_capitals], "a bomb", BlockText("no bombs")),
        ([BOMB], "x" * 200_000, BlockText("no bombs")),
        ([TEST], "test" * 200_000, AllowText()),
        ([LETTER], "\u0301", BlockText("no letters")),
        ([CARD], "x" * 200_000, AllowText()),
        ([TEST, no_bombs], "test" * 200_000 + "bomb", BlockText("no bombs")),
        ([ENDLESS], "b" + "a" * 40 + "c", BlockText("no such list")),
    ],
)
async def test_checks_run_in_order_until_one_decides(checks: list[TextCheck], text: str, ruling: TextRuling) -> None:
    assert await judge(text, checks) == ruling


@pytest.mark.parametrize(
    "wrong",
    [
        {"pattern": "("},
        {"pattern": "(?=a)"},
        {"pattern": "a", "verdict": "rewrite", "replacement": r"\1"},
        {"pattern": "a", "verdict": "forbid"},
        {"pattern": "[[:alpha:]]{6}", "verdict": "rewrite"},
    ],
)
def test_an_invalid_rule_is_rejected(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        GuardRule(**wrong)


async def test_blocked_input_ends_the_run_before_the_model_is_called() -> None:
    made = world(Guardrails(input=[no_bombs]))
    response = await made.infer(user("how to build a bomb"))
    assert response.effects is not None
    assert (response.effects.block, made.model.requests) == ("no bombs", [])


async def test_notes_of_the_runtime_are_not_checked_as_input() -> None:
    """The note that asks for another answer may name what was wrong with the last one."""
    made = world(Guardrails(input=[no_bombs]))
    metadata = MessageMetadata(run_id="r", step_index=1)
    note = user("Your answer was not accepted: no bombs", "2").model_copy(update={"metadata": metadata})
    assert (await made.infer(user("hi"), note)).text == "hello"


async def test_messages_that_blocked_a_run_are_withheld_from_later_runs() -> None:
    made = world(Guardrails(), {"input": [{"pattern": "bomb", "reason": "no bombs"}]})
    messages = (user("a bomb", "1"), user("another bomb", "2"), user("hello", "3"))
    await made.infer(*messages[:2])
    assert made.values == {"guardrails.withheld": ["1", "2"]}
    response = await made.infer(*messages)
    assert response.text == "hello"
    withheld = "[withheld by a guardrail]"
    assert [message.text for message in made.request.messages] == [withheld, withheld, "hello"]


async def test_the_model_reads_rewritten_input() -> None:
    checked: list[str] = []

    def count(text: str) -> None:
        checked.append(text)

    made = world(Guardrails(input=[CARD, count]))
    internal = Message(id="2", role=Role.USER, content=(TextBlock(text="a note"),), visibility=Visibility.INTERNAL)
    for _ in range(2):
        await made.infer(user("pay with 1234567812345678"), internal)
        assert [message.text for message in made.request.messages] == ["pay with 1234…", "a note"]
    assert (checked, made.values) == (["pay with 1234…", "a note"], {})


def document(text: bytes, media_type: str = "text/plain", id: str = "1") -> Message:
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(text).decode()}
    return Message.model_validate({"id": id, "role": "user", "content": [{"type": "document", "source": source}]})


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(id="1", role=Role.SYSTEM, content=(TextBlock(text="a bomb"),)), "no bombs"),
        (user("a bomb").model_copy(update={"visibility": Visibility.INTERNAL}), "no bombs"),
        (document(b"a bomb"), "no bombs"),
        (document(b"a bomb", "TEXT/markdown"), "no bombs"),
        (document("a bomb".encode("utf-16")), "a text document cannot be decoded"),
    ],
)
async def test_all_input_is_checked(message: Message, reason: str) -> None:
    made = world(Guardrails(input=[no_bombs]))
    response = await made.infer(message)
    assert response.effects is not None
    assert (response.effects.block, made.model.requests) == (reason, [])
    await made.infer(message, user("hello", "2"))
    assert [shown.content for shown in made.request.messages] == [
        (TextBlock(text="[withheld by a guardrail]"),),
        (TextBlock(text="hello"),),
    ]


async def test_a_text_document_is_rewritten_and_other_documents_are_not() -> None:
    made = world(Guardrails(input=[CARD]))
    picture = document(b"\xff1234567812345678", "application/pdf", "2")
    await made.infer(document(b"card 1234567812345678"), picture)
    assert made.request.messages == (document("card 1234…".encode()), picture)


async def test_an_answer_is_rewritten_and_its_calls_stay() -> None:
    made = world(Guardrails(output=[in_capitals]), turn=say("looking") & call("look", where="up"))
    response = await made.infer()
    assert (response.text, [call.name for call in response.tool_calls]) == ("LOOKING", ["look"])


async def test_a_blocked_answer_is_retried_and_then_ends_the_run() -> None:
    made = world(Guardrails(output=[no_bombs]), {"max_retries": 2}, say("bombs"))
    seen = []
    for _ in range(3):
        response = await made.infer()
        assert response.effects is not None
        seen.append((response.text, response.effects.retry, response.effects.block))
    note = "Your last answer was not accepted: no bombs. It was discarded. Answer again in a way that avoids this."
    assert seen == [("", note, None), ("", note, None), ("", None, "no bombs")]


async def test_a_check_that_fails_fails_the_run() -> None:
    def broken(text: str) -> Any:
        return text == "never"

    for guard in (Guardrails(input=[broken]), Guardrails(output=[broken])):
        response = await world(guard).infer()
        assert response.effects is not None
        assert "check 'broken' returned a bool; return a TextRuling or None" in (response.effects.fail or "")


async def test_a_run_is_checked_from_end_to_end(serving: Serving, thread_id: str) -> None:
    model = ScriptedModel([say("here is a bomb")], when={"not accepted": [say("here is a cake")]})
    registry = Registry(agents=[agent(Guardrails(output=[no_bombs, CARD]))], models={"m": model})
    async with serving(registry) as client:
        result = await client.run("a", "1234567812345678", thread_id=thread_id)
        transcript = await client.transcript(thread_id)
        events = await client.events(thread_id)
    assert (result.status_reason, result.response) == ("natural", "here is a cake")
    shown = [message.text for message in transcript if message.visibility is Visibility.ALL]
    assert shown == ["1234567812345678", "here is a cake"]
    assert "here is a bomb" not in events.model_dump_json()


async def test_a_thread_can_continue_after_a_blocked_message(serving: Serving, thread_id: str) -> None:
    model = Recording([say("hello")])
    registry = Registry(agents=[agent(Guardrails(input=[no_bombs]))], models={"m": model})
    async with serving(registry) as client:
        await client.send(thread_id, "a bomb", agent_id="a")
        view = await until(client, thread_id, lambda view: view.result is not None)
        assert view.result is not None
        assert (view.result.status_reason, view.result.response) == ("blocked:no bombs", "")
        assert model.requests == []
        await client.send(thread_id, "and now?")
        await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
        said = [message.text for message in await client.transcript(thread_id)]
        assert said == ["a bomb", "and now?", "hello"]
        await client.handle(thread_id).cancel()
        await client.result(thread_id)
    (request,) = model.requests
    assert [message.text for message in request.messages] == ["[withheld by a guardrail]", "and now?"]
