"""Validation of decisions: against the ticket's arguments, its response schema, and the tool's parameters."""

import pytest
from pydantic import JsonValue

from tests.loop.driving import (
    AGENT,
    LOOK,
    PARALLEL,
    REQUEST,
    TICK,
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    call,
    make_ticket,
    ok,
    pending,
    pending_with,
    reject,
    resume,
)
from wakeful.contract.decisions import Decision, ResumeMode, Suspension, SuspensionTicket, digest_arguments
from wakeful.contract.gates import Suspend
from wakeful.contract.tools import FrontendTool
from wakeful.loop.calls.decisions import Apply, Hold, Refuse, judge
from wakeful.loop.calls.schema_checks import TOO_MUCH, SchemaChecks
from wakeful.loop.machine.revisions import TASKS_ARE_BOUNDED
from wakeful.loop.machine.state import Advance, TaskWork

CITY: dict[str, JsonValue] = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
TYPED = AGENT.model_copy(update={"tools": (LOOK.model_copy(update={"parameters": CITY}),)})


def waiting(ticket: SuspensionTicket) -> Driver:
    driver = Driver(TYPED)
    driver.model(asks(call("c1", arguments={"at": "Paris"})))
    driver.tool("c1", pending_with(ticket))
    return driver


def edited(arguments: JsonValue, decision: Decision | None = None) -> Decision:
    return (decision or resume("c1")).model_copy(update={"arguments": arguments})


def shown(arguments: JsonValue) -> Decision:
    return resume("c1").model_copy(update={"arguments_digest": digest_arguments(arguments)})


def refused(driver: Driver, *decisions: Decision) -> str:
    """Send decisions that are refused and change nothing else; returns the reason."""
    before = driver.thread
    driver.decide(*decisions)
    assert (driver.thread.stage, driver.last.commands) == (before.stage, ())
    (reason,) = driver.refusal_reasons
    assert judge(before, decisions, SchemaChecks(before, driver.now)) == Refuse(reason)
    return reason


def test_a_decision_about_arguments_that_have_changed_is_refused() -> None:
    ticket = make_ticket("s1").model_copy(update={"pending": call("c1", arguments={"at": "Rome"})})
    driver = waiting(ticket)
    assert driver.thread.batch is not None
    assert driver.thread.batch.suspended[0].ticket.arguments_digest == digest_arguments({"at": "Rome"})
    assert refused(driver, shown({"at": "Paris"})) == ("call 'c1': the arguments have changed since they were shown")
    driver.decide(shown({"at": "Rome"}))
    assert len(driver.tool_commands("c1")) == 2


@pytest.mark.parametrize(
    ("asked_for", "result", "wrong"),
    [
        ({"type": "boolean"}, True, None),
        ({"type": "boolean"}, "yes", '"yes" is not of type boolean'),
        ({"type": "boolean"}, None, "null is not of type boolean"),
        ({"required": ["by"]}, {"of": "Ann"}, "'by' is missing"),
        (None, "anything", None),
    ],
)
def test_the_result_of_a_decision_must_match_the_response_schema(
    asked_for: JsonValue, result: JsonValue, wrong: str | None
) -> None:
    driver = waiting(make_ticket("s1", asks_for=asked_for))
    if wrong is None:
        driver.decide(resume("c1", result))
        assert (driver.refusal_reasons, len(driver.tool_commands("c1"))) == ([], 2)
    else:
        reason = refused(driver, resume("c1", result))
        assert reason == f"call 'c1': the result does not match the requested schema: {wrong}"


def test_the_schema_checks_of_a_batch_are_limited_together() -> None:
    driver = Driver(PARALLEL)
    ids = ("c1", "c2", "c3")
    driver.model(asks(*map(call, ids)))
    for id in ids:
        driver.tool(id, pending_with(make_ticket(f"s-{id}", asks_for={"items": {"type": "integer"}})))
    long: list[JsonValue] = [list[JsonValue](range(25_000)) for _ in ids]  # two of them exceed the limit
    assert refused(driver, *map(resume, ids, long)) == (
        "call 'c3': the result does not match the requested schema: this is too deep or too long to be checked"
    )
    driver.decide(*map(resume, ids[:2], long))
    assert [len(driver.tool_commands(id)) for id in ids] == [2, 2, 1]


SELF: JsonValue = {"$ref": "#/$defs/a"}
COSTLY: JsonValue = {"$defs": {"a": {"oneOf": [SELF, SELF]}}, "$ref": "#/$defs/a"}
"""One check takes all the work that a batch may take."""


def at_once(driver: Driver, *batches: tuple[Decision, ...]) -> list[str]:
    """Batches that one workflow task gets; returns why they were refused."""
    driver.now, reasons = driver.now + TICK, list[str]()
    for batch in batches:
        driver.now, before = driver.now - TICK, driver.thread.refusals
        driver.decide(*batch)
        reasons += driver.refusal_reasons[-1:] if driver.thread.refusals is not before else []
    return reasons


@pytest.mark.parametrize(("revision", "checked"), [(TASKS_ARE_BOUNDED, 2), (3, 10), (1, 12)])
def test_the_schema_checks_of_a_workflow_task_are_limited_together(revision: int, checked: int) -> None:
    driver = Driver(TYPED, revision=revision)
    driver.model(asks(call("c1")))
    driver.tool("c1", pending_with(make_ticket("s1", asks_for=COSTLY)))
    reasons = at_once(driver, *((resume("c1", f"v{number}"),) for number in range(400)))
    assert [reason == TOO_MUCH for reason in reasons] == [False] * checked + [True] * (400 - checked)
    assert after_continue_as_new(driver.thread).current.task_work == TaskWork()
    assert at_once(driver, (resume("c1"),))[0].startswith("call 'c1': the result does not match")


def test_a_form_that_is_corrected_a_thousand_times_in_one_workflow_task_is_checked_each_time() -> None:
    field: JsonValue = {"type": "string", "pattern": r"^\w{1,150}$"}
    form: JsonValue = {"properties": {f"field{number}": field for number in range(20)}, "required": ["field0"]}
    driver = waiting(make_ticket("s1", asks_for=form))
    wrong = [(resume("c1", {f"field{number % 20}": "Ann"}),) for number in range(1, 1_000) if number % 20]
    assert TOO_MUCH not in at_once(driver, *wrong)
    assert at_once(driver, (resume("c1", {"field0": "Ann"}),)) == []


def test_decisions_that_wait_for_other_calls_are_not_refused_because_a_check_was_left_out() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2"), call("c3")))
    driver.tool("c1", pending_with(make_ticket("s1", asks_for=COSTLY)))
    driver.tool("c2", pending_with(make_ticket("s2", asks_for={"type": "string"})))
    reasons = at_once(driver, *((resume("c1", number),) for number in range(9)), (resume("c2", 7), resume("c3")))
    assert (len(reasons), driver.thread.current.held) == (9, ((resume("c2", 7), resume("c3")),))
    driver.tool("c3", pending())
    assert driver.refusal_reasons[-1].endswith("7 is not of type string")


def test_a_cancel_need_not_match_the_response_schema() -> None:
    driver = waiting(make_ticket("s1", asks_for={"type": "boolean"}, mode=ResumeMode.PASS_DECISION_TO_TOOL))
    driver.decide(reject("c1", "no"))
    assert driver.tool_results == [("c1", "cancelled by decision: no")]


def test_a_result_that_becomes_arguments_must_match_the_tools_parameters() -> None:
    driver = waiting(make_ticket("s1", mode=ResumeMode.PASS_DECISION_TO_TOOL))
    assert refused(driver, resume("c1", {"at": 7})) == (
        "call 'c1': the result does not match the tool's parameters: at: 7 is not of type string"
    )
    driver.decide(resume("c1", {"at": "Rome"}))
    assert driver.tool_commands("c1")[-1].call.arguments == {"at": "Rome"}


def test_a_call_can_resume_with_edited_arguments_and_both_are_recorded() -> None:
    driver = waiting(make_ticket("s1"))
    driver.decide(edited({"at": "Rome"}))
    run = driver.tool_commands("c1")[-1]
    assert (run.call.arguments, run.resume and run.resume.arguments) == ({"at": "Rome"}, {"at": "Rome"})
    assert after_continue_as_new(driver.thread) == driver.thread
    driver.tool("c1", ok("sunny"))
    assert driver.thread.transcript.messages[1].tool_calls[0].arguments == {"at": "Paris"}


def test_edited_arguments_hold_until_they_are_edited_again() -> None:
    driver = waiting(make_ticket("s1"))
    driver.decide(edited({"at": "Rome"}))
    driver.tool("c1", pending())
    assert driver.thread.batch is not None
    assert driver.thread.batch.suspended[0].ticket.pending.arguments == {"at": "Rome"}
    driver.decide(shown({"at": "Rome"}))
    assert driver.tool_commands("c1")[-1].call.arguments == {"at": "Rome"}
    driver.tool("c1", pending())
    driver.decide(edited({"at": "Oslo"}))
    assert driver.tool_commands("c1")[-1].call.arguments == {"at": "Oslo"}


@pytest.mark.parametrize(
    ("mode", "decision", "reason"),
    [
        (
            ResumeMode.REPLAY_TOOL_CALL,
            edited({"at": 7}),
            "call 'c1': the arguments do not match the tool's parameters: at: 7 is not of type string",
        ),
        (
            ResumeMode.REPLAY_TOOL_CALL,
            edited({"at": "Rome"}, reject("c1")),
            "call 'c1': 'arguments' are only allowed with the action 'resume' and the resume mode 'replay_tool_call'",
        ),
        (
            ResumeMode.USE_DECISION_AS_TOOL_RESULT,
            edited({"at": "Rome"}),
            "call 'c1': 'arguments' are only allowed with the action 'resume' and the resume mode 'replay_tool_call'",
        ),
    ],
    ids=["mismatch", "with a cancel", "with a call that does not run"],
)
def test_invalid_edits_of_arguments_are_refused(mode: ResumeMode, decision: Decision, reason: str) -> None:
    assert refused(waiting(make_ticket("s1", mode=mode)), decision) == reason


def test_arguments_of_a_frontend_call_that_a_gate_suspended_can_be_edited() -> None:
    driver = Driver()
    driver.model(asks_gated(call("c1", "pick", {"of": 2}), c1=Suspend(ticket=make_ticket("s1"))))
    driver.decide(edited({"of": 3}))
    assert driver.thread.batch is not None
    assert driver.thread.batch.suspended[0].ticket.pending.arguments == {"of": 3}


def test_the_result_of_a_frontend_tool_must_match_its_schema() -> None:
    """B-240"""
    pick = FrontendTool(id="pick", result_schema={"enum": ["red", "blue"]})
    driver = Driver(request=REQUEST.model_copy(update={"frontend_tools": (pick,)}))
    driver.model(asks(call("c1", "pick")))
    assert refused(driver, resume("c1", "green")).endswith('"green" is not one of ["red", "blue"]')
    driver.decide(resume("c1", "red"))
    assert driver.tool_results == [("c1", "red")]


def test_judging_a_decision_changes_nothing() -> None:
    driver = waiting(make_ticket("s1"))
    state = driver.thread
    assert state.batch is not None
    (suspended,) = state.batch.suspended
    decision = resume("c1", id="d1")
    assert judge(state, (decision,), SchemaChecks(state, 0)) == Apply(((suspended, decision),))
    driver.decide(decision)
    assert judge(driver.thread, (decision,), SchemaChecks(driver.thread, 0)) == Apply(())
    early = Driver()
    early.model(asks(call("c1")))
    assert judge(early.thread, (decision,), SchemaChecks(early.thread, 0)) == Hold()


def test_one_invalid_decision_refuses_its_whole_batch() -> None:
    """H-02"""
    driver = Driver(TYPED.model_copy(update={"tool_mode": "parallel"}))
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", pending("s1"))
    driver.tool("c2", pending_with(make_ticket("s2", asks_for={"type": "boolean"})))
    assert refused(driver, resume("c1"), resume("c2")).startswith("call 'c2': the result does not match")
    before = driver.thread
    assert driver.decide() == Advance(before)


def test_a_call_that_suspends_again_keeps_the_arguments_of_the_decision() -> None:
    """An approval of five must not become an approval of a thousand."""

    def ticket(amount: int, mode: ResumeMode) -> SuspensionTicket:
        suspension = Suspension(id="s1", action="pay")
        return SuspensionTicket(suspension=suspension, pending=call("c1", "pay", {"amount": amount}), resume_mode=mode)

    driver = Driver()
    driver.model(asks(call("c1", "pay", {"amount": 1000})))
    driver.tool("c1", pending_with(ticket(1000, ResumeMode.PASS_DECISION_TO_TOOL)))
    driver.decide(resume("c1", {"amount": 5}))
    driver.tool("c1", pending_with(ticket(5, ResumeMode.REPLAY_TOOL_CALL)))
    driver.decide(resume("c1"))
    assert [run.call.arguments for run in driver.tool_commands("c1")][1:] == [{"amount": 5}, {"amount": 5}]
