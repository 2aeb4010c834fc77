"""The rules themselves: each notices what its provider would refuse."""

from collections.abc import Callable, Sequence

import pytest

from tests.loop.driving import call
from tests.loop.provider_rules import check_anthropic, check_every_provider, check_openai_chat, check_openai_responses
from wakeful.contract.messages import Message, Role, TextBlock

Rule = Callable[[Sequence[Message]], None]


def said(role: Role, text: str = "Hm.", *calls: str, answers: str | None = None) -> Message:
    content = (TextBlock(text=text),) if text else ()
    return Message(id="", role=role, content=content, tool_calls=tuple(map(call, calls)), tool_call_id=answers)


ASKED = said(Role.USER)
CALLS = said(Role.ASSISTANT, "", "a", "b")
A, B = said(Role.TOOL, answers="a"), said(Role.TOOL, answers="b")
GOOD = (ASKED, CALLS, B, A, said(Role.ASSISTANT), ASKED, ASKED, said(Role.ASSISTANT, ""))


def test_a_valid_conversation_passes_the_checks_of_every_provider() -> None:
    check_every_provider(GOOD)


@pytest.mark.parametrize(
    ("messages", "refusing"),
    [
        ((ASKED, CALLS, A), {check_openai_chat, check_openai_responses, check_anthropic}),
        ((ASKED, CALLS, A, B, B), {check_openai_chat, check_openai_responses, check_anthropic}),
        ((ASKED, CALLS, A, ASKED, B), {check_openai_chat, check_anthropic}),
        ((ASKED, CALLS, ASKED, A, B), {check_openai_chat, check_anthropic}),
        ((ASKED, CALLS, A, B, CALLS, A, B), {check_openai_responses}),
        ((ASKED, A), {check_openai_chat, check_openai_responses, check_anthropic}),
        ((said(Role.ASSISTANT), ASKED), {check_anthropic}),
        ((said(Role.USER, " "),), {check_anthropic}),
    ],
)
def test_a_conversation_that_a_provider_would_reject_fails_its_check(
    messages: Sequence[Message], refusing: set[Rule]
) -> None:
    for rule in (check_openai_chat, check_openai_responses, check_anthropic):
        if rule in refusing:
            with pytest.raises(AssertionError):
                rule(messages)
        else:
            rule(messages)
