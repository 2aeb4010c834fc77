"""The chain of digests: the same conversation has the same name, and anything the model would see changes it."""

from functools import reduce

import pytest

from tests.contract.pinned.messages import CALL, METADATA
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import Message, Role, TextBlock, ThinkingBlock, ToolCall, Visibility
from wakeful.contract.tools import ToolResult
from wakeful.contract.transcript import EMPTY_DIGEST, assistant_message, chained, tool_message

ASKED = Message(id="m1", role=Role.USER, content=(TextBlock(text="How is Paris?"),))
CALLED = Message(id="m2", role=Role.ASSISTANT, tool_calls=(CALL,))
TOLD = Message(id="m3", role=Role.TOOL, content=(TextBlock(text="sunny"),), tool_call_id="c1")


def digest(*messages: Message) -> str:
    return reduce(chained, messages, EMPTY_DIGEST)


def test_the_digest_of_a_transcript_is_what_it_has_always_been() -> None:
    assert [digest(), digest(ASKED), digest(ASKED, CALLED), digest(ASKED, CALLED, TOLD)] == [
        "",
        "23c2032eb88927722b73f59e4a9a2636",
        "6bff590df35e1012e83b1a954ab2a5d3",
        "faab22f3e7a191be48429f6719e8767f",
    ]


@pytest.mark.parametrize(
    "changed",
    [
        (CALLED, ASKED, TOLD),
        (ASKED, TOLD),
        (ASKED.model_copy(update={"role": Role.SYSTEM}), CALLED, TOLD),
        (ASKED.model_copy(update={"content": (TextBlock(text="How is Rome?"),)}), CALLED, TOLD),
        (ASKED, CALLED.model_copy(update={"tool_calls": (ToolCall(id="c1", name="look"),)}), TOLD),
        (ASKED, CALLED, TOLD.model_copy(update={"tool_call_id": "c2"})),
    ],
    ids=["order", "a missing entry", "role", "content", "tool calls", "tool call id"],
)
def test_whatever_the_model_sees_changes_the_digest(changed: tuple[Message, ...]) -> None:
    assert digest(*changed) != digest(ASKED, CALLED, TOLD)


def test_what_the_model_does_not_see_does_not_change_the_digest() -> None:
    unseen = {"id": "other", "visibility": Visibility.INTERNAL, "metadata": METADATA}
    assert digest(ASKED.model_copy(update=unseen)) == digest(ASKED)


def test_a_tool_message_answers_its_call_with_the_text_of_the_result() -> None:
    result = ToolResult.success("look", {"sky": "sunny"})
    assert tool_message("c1", result, id="r1:3", metadata=METADATA) == Message(
        id="r1:3",
        role=Role.TOOL,
        content=(TextBlock(text='{"sky":"sunny"}'),),
        tool_call_id="c1",
        metadata=METADATA,
    )


def test_an_assistant_message_holds_thoughts_words_and_calls_in_this_order() -> None:
    response = ModelResponse(model="m", text="Let me look.", reasoning="Hm", tool_calls=(CALL,))
    assert assistant_message(response, id="r1:2", metadata=METADATA) == Message(
        id="r1:2",
        role=Role.ASSISTANT,
        content=(ThinkingBlock(thinking="Hm"), TextBlock(text="Let me look.")),
        tool_calls=(CALL,),
        metadata=METADATA,
    )


def test_signed_thoughts_come_first_and_as_they_are() -> None:
    blocks = (ThinkingBlock(thinking="Hm", signature="s1"), ThinkingBlock(thinking="", signature="s2"))
    response = ModelResponse(model="m", text="Let me look.", thinking=blocks)
    assert assistant_message(response).content == (*blocks, TextBlock(text="Let me look."))


def test_a_model_that_says_nothing_leaves_an_empty_message() -> None:
    """B-014"""
    assert assistant_message(ModelResponse(model="m")) == Message(id="", role=Role.ASSISTANT)
