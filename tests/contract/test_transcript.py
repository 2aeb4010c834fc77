"""The chain of digests: equal conversations have equal digests, and whatever the model sees changes it."""

from functools import reduce

import pytest

from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock, ThinkingBlock, ToolCall, Visibility
from wakeful.contract.tools import ToolResult
from wakeful.contract.transcript import EMPTY_DIGEST, assistant_message, chained, tool_message

CALL = ToolCall(id="1-1", name="look", arguments={"at": "Paris"})
METADATA = MessageMetadata(run_id="r1", step_index=1)
QUESTION = Message(id="m1", role=Role.USER, content=(TextBlock(text="How is Paris?"),))
ANSWER = Message(id="m2", role=Role.ASSISTANT, tool_calls=(CALL,))
RESULT = Message(id="m3", role=Role.TOOL, content=(TextBlock(text="sunny"),), tool_call_id="1-1")


def digest(*messages: Message) -> str:
    return reduce(chained, messages, EMPTY_DIGEST)


def test_the_digest_of_a_transcript_never_changes() -> None:
    assert [digest(), digest(QUESTION), digest(QUESTION, ANSWER), digest(QUESTION, ANSWER, RESULT)] == [
        "",
        "23c2032eb88927722b73f59e4a9a2636",
        "2d34fcfde0aefa5dcc152a13c6105e80",
        "096b0b1339242dd0c1422253e0c400c6",
    ]


@pytest.mark.parametrize(
    "changed",
    [
        (ANSWER, QUESTION, RESULT),
        (QUESTION, RESULT),
        (QUESTION.model_copy(update={"role": Role.SYSTEM}), ANSWER, RESULT),
        (QUESTION.model_copy(update={"content": (TextBlock(text="How is Rome?"),)}), ANSWER, RESULT),
        (QUESTION, ANSWER.model_copy(update={"tool_calls": (ToolCall(id="1-1", name="look"),)}), RESULT),
        (QUESTION, ANSWER, RESULT.model_copy(update={"tool_call_id": "1-2"})),
    ],
    ids=["order", "a missing entry", "role", "content", "tool calls", "tool call id"],
)
def test_whatever_the_model_sees_changes_the_digest(changed: tuple[Message, ...]) -> None:
    assert digest(*changed) != digest(QUESTION, ANSWER, RESULT)


def test_what_the_model_does_not_see_does_not_change_the_digest() -> None:
    unseen = {"id": "other", "visibility": Visibility.INTERNAL, "metadata": METADATA}
    assert digest(QUESTION.model_copy(update=unseen)) == digest(QUESTION)


def test_a_tool_message_answers_its_call_with_the_text_of_the_result() -> None:
    result = ToolResult.success("look", {"sky": "sunny"})
    assert tool_message("1-1", result, id="r1:3", metadata=METADATA) == Message(
        id="r1:3",
        role=Role.TOOL,
        content=(TextBlock(text='{"sky":"sunny"}'),),
        tool_call_id="1-1",
        metadata=METADATA,
    )


def test_an_assistant_message_has_reasoning_text_and_calls_in_this_order() -> None:
    response = ModelResponse(model="m", text="Let me look.", reasoning="Hm", tool_calls=(CALL,))
    assert assistant_message(response, id="r1:2", metadata=METADATA) == Message(
        id="r1:2",
        role=Role.ASSISTANT,
        content=(ThinkingBlock(thinking="Hm"), TextBlock(text="Let me look.")),
        tool_calls=(CALL,),
        metadata=METADATA,
    )


def test_signed_reasoning_comes_first_and_unchanged() -> None:
    blocks = (ThinkingBlock(thinking="Hm", signature="s1"), ThinkingBlock(thinking="", signature="s2"))
    response = ModelResponse(model="m", text="Let me look.", thinking=blocks)
    assert assistant_message(response).content == (*blocks, TextBlock(text="Let me look."))


def test_an_empty_answer_is_an_empty_message() -> None:
    """B-014"""
    assert assistant_message(ModelResponse(model="m")) == Message(id="", role=Role.ASSISTANT)
