"""What a client's message decides about a suspended call."""

import pytest
from a2a.types import Message, Part
from a2a.utils.errors import InvalidParamsError
from pydantic import JsonValue

from wakeful.a2a.answering import actor_of, chosen_call, decision_of
from wakeful.a2a.parts import data_part
from wakeful.a2a.projection import WaitingCall
from wakeful.contract.decisions import DecisionAction, ResumeMode, Suspension, SuspensionTicket
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import ACTION_PERMISSION

RESUME, CANCEL = DecisionAction.RESUME, DecisionAction.CANCEL


def ticket(
    action: str = "tool:pay",
    *,
    mode: ResumeMode = ResumeMode.REPLAY_TOOL_CALL,
    schema: JsonValue = None,
    call_id: str = "1-1",
) -> SuspensionTicket:
    suspension = Suspension(id=f"suspend_{call_id}", action=action, response_schema=schema)
    call = ToolCall(id=call_id, name="pay", arguments={"amount": 7})
    return SuspensionTicket(suspension=suspension, pending=call, resume_mode=mode, arguments_digest="d")


def message(*content: str | JsonValue) -> Message:
    parts = [Part(text=each) if isinstance(each, str) else data_part(each) for each in content]
    return Message(message_id="m1", parts=parts)


def decided(asked: SuspensionTicket, *content: str | JsonValue) -> tuple[DecisionAction, JsonValue, str | None]:
    decision = decision_of(asked, message(*content), actor="ann")
    return decision.action, decision.result, decision.reason


@pytest.mark.parametrize("action", [ACTION_PERMISSION, "tool:pay"])
def test_whether_a_call_may_run_is_answered_by_a_word_or_by_data(action: str) -> None:
    asked = ticket(action)
    assert decided(asked, "Approve!") == (RESUME, None, None)
    assert decided(asked, "yes, it is small") == (RESUME, None, "it is small")
    assert decided(asked, "deny: too much") == (CANCEL, None, "too much")
    assert decided(asked, {"approved": True, "result": 3}) == (RESUME, 3, None)
    assert decided(asked, {"approved": False, "reason": "no"}) == (CANCEL, None, "no")
    assert decided(asked, True) == (RESUME, None, None)


@pytest.mark.parametrize("content", ["please do not", "", "perhaps yes", {"approved": "yes"}, {}, 1])
def test_nothing_else_lets_a_call_run(content: JsonValue) -> None:
    with pytest.raises(InvalidParamsError, match="approve"):
        decided(ticket(), content)


def test_a_question_of_a_tool_gets_the_text_or_the_data() -> None:
    for asked in (ticket("ask_size"), ticket(mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)):
        assert decided(asked, "no") == (RESUME, "no", None)
        assert decided(asked, "line one", "line two") == (RESUME, "line one\nline two", None)
        assert decided(asked, {"n": 3, "x": 0.5}) == (RESUME, {"n": 3, "x": 0.5}, None)
        assert decided(asked, [1], [2]) == (RESUME, [[1], [2]], None)


def test_a_text_that_is_the_json_which_is_asked_for_is_read_as_that() -> None:
    number: JsonValue = {"type": "integer"}
    asked = ticket(schema=number)
    assert decided(asked, "3") == (RESUME, 3, None)
    assert decided(asked, "three") == (RESUME, "three", None)  # the thread refuses it, with the reason
    assert decided(asked, '"3"') == (RESUME, '"3"', None)
    assert decided(ticket(schema={"type": "string"}), "3") == (RESUME, "3", None)


def test_the_metadata_of_a_message_can_decline_any_question() -> None:
    answer = message("not today")
    answer.metadata["action"] = "cancel"
    decision = decision_of(ticket("ask_size"), answer, actor="ann")
    assert (decision.action, decision.reason) == (CANCEL, "not today")


def test_a_decision_is_bound_to_its_message_and_to_what_was_asked() -> None:
    decision = decision_of(ticket(), message("yes"), actor="ann")
    assert (decision.decision_id, decision.target, decision.arguments_digest) == ("m1", "suspend_1-1", "d")
    assert (decision.actor, decision.channel) == ("ann", "a2a")


@pytest.mark.parametrize(
    ("user", "program", "actor"),
    [
        ("", "", "A2A client"),
        ("", "desk/2.1 (linux)", "A2A client desk/2.1 (linux)"),
        ("ann", "desk/2.1", "ann (A2A client desk/2.1)"),
        ("ann", "", "ann (A2A client)"),
        ("", "a\u202e\tb", "A2A client a b"),
        ("", "x" * 500, f"A2A client {'x' * 199}…"),
    ],
)
def test_who_decides_is_named_as_far_as_the_server_knows(user: str, program: str, actor: str) -> None:
    assert actor_of(user, program) == actor


def test_a_message_answers_the_oldest_question_or_the_one_that_it_names() -> None:
    waiting = [WaitingCall("t", ticket(call_id="1-1")), WaitingCall("t/c", ticket(call_id="2-1"))]
    assert chosen_call(waiting, message("yes")) is waiting[0]
    for name in ("2-1", "suspend_2-1"):
        answer = message("yes")
        answer.metadata["call_id"] = name
        assert chosen_call(waiting, answer) is waiting[1]
    answer.metadata["call_id"] = "9-9"
    with pytest.raises(InvalidParamsError, match="no call '9-9' waits for an answer; waiting: '1-1', '2-1'"):
        chosen_call(waiting, answer)
