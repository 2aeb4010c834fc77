"""The rules themselves: each notices what its provider would refuse."""

from collections.abc import Callable, Sequence

import pytest

from tests.loop.driving import call
from tests.loop.provider_rules import anthropic_takes, may_be_sent_anywhere, openai_chat_takes, openai_responses_takes
from wakeful.contract.messages import Message, Role, TextBlock

Rule = Callable[[Sequence[Message]], None]


def said(role: Role, text: str = "Hm.", *calls: str, answers: str | None = None) -> Message:
    content = (TextBlock(text=text),) if text else ()
    return Message(id="", role=role, content=content, tool_calls=tuple(map(call, calls)), tool_call_id=answers)


ASKED = said(Role.USER)
CALLS = said(Role.ASSISTANT, "", "a", "b")
A, B = said(Role.TOOL, answers="a"), said(Role.TOOL, answers="b")
GOOD = (ASKED, CALLS, B, A, said(Role.ASSISTANT), ASKED, ASKED, said(Role.ASSISTANT, ""))


def test_a_good_conversation_may_be_sent_anywhere() -> None:
    may_be_sent_anywhere(GOOD)


@pytest.mark.parametrize(
    ("messages", "refusing"),
    [
        ((ASKED, CALLS, A), {openai_chat_takes, openai_responses_takes, anthropic_takes}),
        ((ASKED, CALLS, A, B, B), {openai_chat_takes, openai_responses_takes, anthropic_takes}),
        ((ASKED, CALLS, A, ASKED, B), {openai_chat_takes, anthropic_takes}),
        ((ASKED, CALLS, ASKED, A, B), {openai_chat_takes, anthropic_takes}),
        ((ASKED, CALLS, A, B, CALLS, A, B), {openai_responses_takes}),
        ((ASKED, A), {openai_chat_takes, openai_responses_takes, anthropic_takes}),
        ((said(Role.ASSISTANT), ASKED), {anthropic_takes}),
        ((said(Role.USER, " "),), {anthropic_takes}),
    ],
)
def test_what_a_provider_would_refuse_is_noticed(messages: Sequence[Message], refusing: set[Rule]) -> None:
    for rule in (openai_chat_takes, openai_responses_takes, anthropic_takes):
        if rule in refusing:
            with pytest.raises(AssertionError):
                rule(messages)
        else:
            rule(messages)
