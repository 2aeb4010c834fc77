"""Each check of `provider_rules` fails for what its provider would reject."""

from collections.abc import Callable, Sequence

import pytest

from tests.loop.driving import call
from tests.loop.provider_rules import check_anthropic, check_every_provider, check_openai_chat, check_openai_responses
from wakeful.contract.messages import Message, Role, TextBlock

Check = Callable[[Sequence[Message]], None]


def message(role: Role, text: str = "Hm.", *calls: str, answers: str | None = None) -> Message:
    content = (TextBlock(text=text),) if text else ()
    return Message(id="", role=role, content=content, tool_calls=tuple(map(call, calls)), tool_call_id=answers)


USER = message(Role.USER)
CALLS = message(Role.ASSISTANT, "", "a", "b")
A, B = message(Role.TOOL, answers="a"), message(Role.TOOL, answers="b")
GOOD = (USER, CALLS, B, A, message(Role.ASSISTANT), USER, USER, message(Role.ASSISTANT, ""))


def test_a_valid_conversation_passes_the_checks_of_every_provider() -> None:
    check_every_provider(GOOD)


@pytest.mark.parametrize(
    ("messages", "failing"),
    [
        ((USER, CALLS, A), {check_openai_chat, check_openai_responses, check_anthropic}),
        ((USER, CALLS, A, B, B), {check_openai_chat, check_openai_responses, check_anthropic}),
        ((USER, CALLS, A, USER, B), {check_openai_chat, check_anthropic}),
        ((USER, CALLS, USER, A, B), {check_openai_chat, check_anthropic}),
        ((USER, CALLS, A, B, CALLS, A, B), {check_openai_responses}),
        ((USER, A), {check_openai_chat, check_openai_responses, check_anthropic}),
        ((message(Role.ASSISTANT), USER), {check_anthropic}),
        ((message(Role.USER, " "),), {check_anthropic}),
    ],
)
def test_a_conversation_that_a_provider_would_reject_fails_its_check(
    messages: Sequence[Message], failing: set[Check]
) -> None:
    for check in (check_openai_chat, check_openai_responses, check_anthropic):
        if check in failing:
            with pytest.raises(AssertionError):
                check(messages)
        else:
            check(messages)
