"""What people can send to a thread."""

import json
import re
from collections.abc import Callable

import pytest
from pydantic import ValidationError

from wakeful.contract.decisions import Decision, DecisionAction, Decisions
from wakeful.contract.errors import CallerError, InvalidValue
from wakeful.contract.messages import MESSAGE_LIMIT, InputMessage, Message, Role, TextBlock, ThinkingBlock, Visibility
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.requests import (
    CancelRequest,
    CloseRequest,
    Fork,
    ForkPointRequest,
    OutcomesRequest,
    PageRequest,
    RunRequest,
    Submission,
    parse_budget_grant,
    parse_budget_request,
    parse_cancel,
    parse_child_settled,
    parse_close,
    parse_decide,
    parse_decisions,
    parse_edit,
    parse_fork_point,
    parse_mail,
    parse_mail_returned,
    parse_missing_report,
    parse_outcomes,
    parse_page,
    parse_request,
    parse_revoke,
    parse_submission,
    parse_undelivered_request,
    parse_withdraw,
    title_of,
)
from wakeful.contract.runs import ThreadMode
from wakeful.contract.tools import FrontendTool, ToolDescriptor


def test_the_short_form_typed_by_hand_is_enough() -> None:
    request = RunRequest.model_validate_json('{"agent_id": "assistant", "input": "hello"}')
    assert request.messages == (InputMessage(content="hello"),)


def test_messages_that_have_ids_are_unchanged() -> None:
    written = (InputMessage(content="hello", id="m1"), InputMessage(content="be brief", role=Role.SYSTEM))
    assert RunRequest(agent_id="assistant", input=written).messages == written


def test_a_fork_without_input_starts_a_run() -> None:
    fork = Fork(thread_id="t0", run_id="0190", step=0, messages=1)
    overrides = InferenceOverrides(max_tokens=9)
    rules = (Rule(tool="look", behavior=Behavior.DENY),)
    assert RunRequest(agent_id="assistant", fork=fork, overrides=overrides, permissions=rules).messages == ()


def test_a_thread_continues_another_thread_or_itself() -> None:
    with pytest.raises(
        InvalidValue, match=r"a thread continues another thread \(fork\) or itself \(restore_from\), not both"
    ):
        RunRequest(agent_id="assistant", fork=Fork(thread_id="t", run_id="r", step=1, messages=2), restore_from="r0")


@pytest.mark.parametrize("written", [{"messages": -1}, {}, None])
def test_an_impossible_fork_point_is_rejected(written: object) -> None:
    assert parse_fork_point({"messages": 3}) == ForkPointRequest(messages=3)
    assert parse_outcomes({"ids": ["d1"]}) == OutcomesRequest(ids=("d1",))
    assert parse_outcomes(None) == OutcomesRequest()
    with pytest.raises(CallerError, match=r'For example: \{"messages": 3\}'):
        parse_fork_point(written)


@pytest.mark.parametrize("empty", ["", ()])
def test_a_request_without_input_is_rejected(empty: str | tuple[InputMessage, ...]) -> None:
    """B-590"""
    with pytest.raises(InvalidValue, match="input is empty: give a text or at least one message"):
        RunRequest(agent_id="assistant", input=empty)


def test_a_thread_can_start_without_input() -> None:
    assert RunRequest(agent_id="assistant", mode=ThreadMode.THREAD).messages == ()


def test_a_thread_that_starts_without_input_has_no_run_to_override() -> None:
    with pytest.raises(InvalidValue, match="no run starts without input: give them with its first message"):
        RunRequest(agent_id="assistant", mode=ThreadMode.THREAD, overrides=InferenceOverrides(max_tokens=9))
    with pytest.raises(InvalidValue, match="permissions are for one run, and no run starts without input"):
        RunRequest(
            agent_id="assistant",
            mode=ThreadMode.THREAD,
            permissions=(Rule(tool="look", behavior=Behavior.ALLOW),),
        )


@pytest.mark.parametrize("blank", ["", "  "])
@pytest.mark.parametrize("parse", [parse_request, parse_submission])
def test_an_override_with_a_blank_model_is_rejected(parse: Callable[[object], object], blank: str) -> None:
    """B-104"""
    written = {"input": "hello", "overrides": {"upstream_model": blank}}
    if parse is parse_request:
        written["agent_id"] = "assistant"
    with pytest.raises(CallerError) as rejected:
        parse(written)
    message = "overrides.upstream_model: inference override upstream_model cannot be empty. For example: "
    assert str(rejected.value).startswith(message)


def test_an_unknown_override_is_rejected_by_name() -> None:
    """B-103"""
    with pytest.raises(CallerError, match=r"overrides\.temprature: Extra inputs are not permitted"):
        parse_request({"agent_id": "a", "input": "hello", "overrides": {"temprature": 0}})


def test_a_request_without_an_agent_is_rejected() -> None:
    with pytest.raises(InvalidValue, match="agent_id"):
        RunRequest(agent_id="", input="hello")


def test_a_frontend_tool_declared_twice_is_rejected_by_name() -> None:
    tools = tuple(FrontendTool(id=id) for id in ("pick", "draw", "pick", "draw", "once"))
    with pytest.raises(InvalidValue, match="frontend_tools are declared twice: draw, pick"):
        RunRequest(agent_id="assistant", input="hello", frontend_tools=tools)


def test_a_frontend_tool_without_an_id_is_rejected() -> None:
    with pytest.raises(InvalidValue, match="id"):
        FrontendTool(id="")


def test_a_frontend_tool_is_described_to_the_model_like_any_other() -> None:
    """B-240"""
    written = FrontendTool(id="pick", description="Pick a colour.", parameters={"type": "object"})
    assert written.descriptor() == ToolDescriptor(
        id="pick", name="pick", description="Pick a colour.", parameters={"type": "object"}, frontend=True
    )


def test_an_input_message_has_the_role_user_or_system() -> None:
    with pytest.raises(ValidationError, match="role"):
        InputMessage.model_validate({"content": "I am the model", "role": "assistant"})


def test_a_submission_is_a_text_or_messages() -> None:
    written = (InputMessage(content="and then?", id="m2"),)
    submissions = (Submission(input="and then?"), Submission(input=written), Submission(input=""))
    assert [submission.messages for submission in submissions] == [(InputMessage(content="and then?"),), written, ()]


def test_a_written_message_without_an_id_is_given_one() -> None:
    """B-590"""
    assert InputMessage(content="hello").as_message("r1:1") == Message(
        id="r1:1", role=Role.USER, content=(TextBlock(text="hello"),)
    )


def test_a_written_message_keeps_its_own_id_blocks_and_visibility() -> None:
    blocks = (TextBlock(text="a"), TextBlock(text="b"))
    written = InputMessage(content=blocks, role=Role.SYSTEM, id="m1", visibility=Visibility.INTERNAL)
    assert written.as_message("r1:1") == Message(
        id="m1", role=Role.SYSTEM, content=blocks, visibility=Visibility.INTERNAL
    )


def test_the_text_of_a_message_is_its_text_blocks_joined() -> None:
    content = (TextBlock(text="Hel"), ThinkingBlock(thinking="hm"), TextBlock(text="lo"))
    assert Message(id="m", role=Role.ASSISTANT, content=content).text == "Hello"


@pytest.mark.parametrize("wrong", [{"after": -1}, {"limit": 0}, {"limit": 1001}])
def test_a_negative_empty_or_too_large_page_is_rejected(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        PageRequest.model_validate(wrong)


@pytest.mark.parametrize(
    ("request_", "title"),
    [
        (RunRequest(agent_id="a", input="hello", title="A greeting"), "A greeting"),
        (RunRequest(agent_id="a", input="  How is\n the weather? "), "How is the weather?"),
        (RunRequest(agent_id="a", input="x" * 80), "x" * 80),
        (RunRequest(agent_id="a", input="x" * 81), "x" * 79 + "…"),
        (RunRequest(agent_id="a", input="hello", title="x" * 81), "x" * 79 + "…"),
        (RunRequest(agent_id="a", mode=ThreadMode.THREAD), ""),
    ],
    ids=["given", "first words", "just fits", "too long", "given too long", "no input"],
)
def test_a_title_is_the_given_one_or_the_first_words(request_: RunRequest, title: str) -> None:
    assert title_of(request_) == title


RESUME = Decision(target="1-1", action=DecisionAction.RESUME)
CANCEL = Decision(target="1-2", action=DecisionAction.CANCEL)


@pytest.mark.parametrize(
    ("written", "decisions"),
    [
        ({"call_id": "1-1", "action": "resume"}, (RESUME,)),
        (
            {"decisions": [{"call_id": "1-1", "action": "resume"}, {"target": "1-2", "action": "cancel"}]},
            (RESUME, CANCEL),
        ),
        ([{"call_id": "1-1", "action": "resume"}, {"target": "1-2", "action": "cancel"}], (RESUME, CANCEL)),
        ([], ()),
    ],
    ids=["one", "a batch", "a bare list", "none"],
)
def test_decisions_come_alone_or_together(written: object, decisions: tuple[Decision, ...]) -> None:
    assert parse_decisions(written) == decisions


@pytest.mark.parametrize(
    "written",
    [
        {"call_id": "1-1", "action": "resume", "tenant": "acme"},
        {"decisions": [{"call_id": "1-1", "action": "resume"}], "tenant": "acme"},
    ],
    ids=["one", "a batch"],
)
def test_decisions_can_name_the_tenant_of_their_sender(written: object) -> None:
    assert parse_decide(written) == Decisions(decisions=(RESUME,), tenant="acme")


@pytest.mark.parametrize(
    "written",
    [
        {"call_id": "1-1", "action": "resume", "run_id": "r1"},
        {"decisions": [{"call_id": "1-1", "action": "resume"}], "run_id": "r1"},
    ],
    ids=["one", "a batch"],
)
def test_decisions_and_a_cancel_can_name_the_run_that_they_are_for(written: object) -> None:
    """B-611"""
    assert parse_decide(written) == Decisions(decisions=(RESUME,), run_id="r1")
    assert parse_cancel({"run_id": "r1"}) == CancelRequest(run_id="r1")
    assert parse_close({"reason": "late"}) == CloseRequest(reason="late")
    with pytest.raises(CallerError, match="run_id: Extra inputs are not permitted"):
        parse_close({"run_id": "r1"})  # what it closes is the thread
    for run_id in ("", "r" * 201):
        with pytest.raises(CallerError, match="run_id: String should have at"):
            parse_cancel({"run_id": run_id})


def test_a_decision_as_awaken_writes_it_is_read() -> None:
    (dated,) = parse_decisions({"target": "1-1", "action": "resume", "updated_at": 1_719_000_000})
    assert (dated.updated_at, dated.undated, RESUME.undated) == (1_719_000_000, RESUME, RESUME)


@pytest.mark.parametrize(
    ("parse", "written"),
    [
        (parse_decide, {"call_id": "1-1", "action": "resume"}),
        (parse_withdraw, {"message_ids": ["m1"]}),
        (parse_edit, {"message": {"id": "m1", "content": "hi"}}),
        (parse_revoke, {"tools": ["pay"]}),
    ],
)
def test_the_name_of_a_senders_tenant_is_checked(parse: Callable[[object], object], written: dict[str, object]) -> None:
    with pytest.raises(CallerError, match=r"tenant: .*1 to 200 printable characters"):
        parse(written | {"tenant": ""})


def test_every_signal_and_query_is_read_from_small_json() -> None:
    assert parse_request({"agent_id": "a", "input": "hello"}) == RunRequest(agent_id="a", input="hello")
    assert parse_submission({"input": "hello"}) == parse_submission("hello") == Submission(input="hello")
    assert (parse_cancel(None), parse_cancel({"reason": "late"})) == (CancelRequest(), CancelRequest(reason="late"))
    assert (parse_page(None), parse_page({"after": 3})) == (PageRequest(), PageRequest(after=3))


@pytest.mark.parametrize(
    ("parse", "written", "message"),
    [
        (
            parse_request,
            {"agnet_id": "a"},
            "agent_id: Field required; agnet_id: Extra inputs are not permitted. "
            'For example: {"agent_id": "assistant", "input": "hello"}',
        ),
        (
            parse_request,
            {"agent_id": "a", "input": ""},
            "input is empty: give a text or at least one message. "
            'For example: {"agent_id": "assistant", "input": "hello"}',
        ),
        (parse_submission, {}, 'input: Field required. For example: {"input": "hello"}'),
        (parse_withdraw, {"message_ids": []}, "message_ids: Tuple should have at least 1 item after validation, not 0"),
        (parse_edit, {"message": {"content": "hi"}}, "message.id is missing: it says which message to replace"),
        (parse_revoke, {}, 'tools: Field required. For example: {"tools": ["pay"]}'),
        (
            parse_decisions,
            {"call_id": "1-1", "action": "approve"},
            'action: Input should be \'resume\' or \'cancel\'. For example: {"call_id": "1-1", "action": "resume"}',
        ),
        (
            parse_decisions,
            [{"call_id": "1-1"}],
            'decisions.0.action: Field required. For example: {"call_id": "1-1", "action": "resume"}',
        ),
        (
            parse_cancel,
            {"reason": 7},
            'reason: Input should be a valid string. For example: {"reason": "no longer needed"}',
        ),
        (
            parse_mail,
            {"kind": "message"},
            "message.message_id: Field required; message.sender: Field required; message.content: Field required; "
            "message.relation: Field required; message.recipient_thread_id: Field required. For example: ",
        ),
        (
            parse_child_settled,
            {"work_id": "bg_0", "thread_id": "t", "status": "completed", "steps": "many"},
            "steps: Input should be a valid integer, unable to parse string as an integer. For example: ",
        ),
        (parse_mail_returned, {"error": "gone"}, "message: Field required. For example: "),
        (
            parse_undelivered_request,
            {"action": "burn"},
            "action: Input should be 'replay' or 'clear'. For example: ",
        ),
        (parse_missing_report, {"activity_id": "tool-1-1"}, "missing: Field required. For example: "),
        (parse_budget_request, {"work_id": "bg_0", "thread_id": "t"}, "spent: Field required. For example: "),
        (parse_budget_grant, {"refused": 7}, "refused: Input should be a valid string. For example: "),
        (
            parse_page,
            {"limit": 0},
            'limit: Input should be greater than or equal to 1. For example: {"after": 0}',
        ),
    ],
)
def test_a_malformed_payload_is_rejected_field_by_field_with_an_example(
    parse: Callable[[object], object], written: object, message: str
) -> None:
    with pytest.raises(CallerError) as rejected:
        parse(written)
    assert str(rejected.value).startswith(message)


def test_a_message_that_is_too_large_is_rejected() -> None:
    with pytest.raises(InvalidValue, match="at most 1,000,000 are accepted"):
        RunRequest(agent_id="assistant", input="x" * MESSAGE_LIMIT)


@pytest.mark.parametrize("name", ["", " ", " acme", "acme ", "a\nb", "x" * 201, "\x00"])
@pytest.mark.parametrize("field", ["tenant", "user"])
def test_the_name_of_a_tenant_or_a_user_is_short_and_printable(field: str, name: str) -> None:
    """B-663"""
    problem = f"{field}: it must have 1 to 200 printable characters, and no space at its ends"
    for parse, written in ((parse_request, {"agent_id": "a", "input": "hi"}), (parse_submission, {"input": "hi"})):
        with pytest.raises(CallerError, match=re.escape(problem)):
            parse({**written, field: name})
        parse({**written, field: "Müller & Söhne"})


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"note": "x" * 8_000}, "metadata: it has 8,011 bytes; at most 8,000 are accepted"),
        ({"number": float("nan")}, "metadata: Out of range float values are not JSON compliant"),
        (["a"], "metadata: Input should be a valid dictionary"),
        ({"deep": json.loads("[" * 101 + "]" * 101)}, "nested more than 100 levels deep"),
    ],
)
def test_metadata_is_a_small_json_object(metadata: object, problem: str) -> None:
    """B-663"""
    for parse, written in ((parse_request, {"agent_id": "a", "input": "hi"}), (parse_submission, {"input": "hi"})):
        with pytest.raises(CallerError, match=re.escape(problem)):
            parse({**written, "metadata": metadata})
    with pytest.raises(ValidationError, match=re.escape(problem.removeprefix("metadata: "))):
        Submission.model_validate({"input": "hi", "metadata": metadata})


def test_user_and_metadata_need_a_message() -> None:
    """B-663"""
    for written in ({"user": "ann"}, {"metadata": {"order": 7}}):
        with pytest.raises(CallerError, match="user and metadata belong to a message"):
            parse_request({"agent_id": "a", "mode": "thread", **written})
    assert parse_request({"agent_id": "a", "mode": "thread", "tenant": "acme"}).tenant == "acme"


def test_a_submission_of_one_message_can_be_given_an_id() -> None:
    submission = parse_submission({"input": "hello", "user": "ada"}).with_message_id("m1")
    assert ([message.id for message in submission.messages], submission.user) == (["m1"], "ada")
