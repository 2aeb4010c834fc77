"""The snapshot that continue-as-new passes to the next execution: the whole thread, except old messages."""

from dataclasses import replace

import pytest
from temporalio.contrib.pydantic import PydanticPayloadConverter

from tests.loop.driving import (
    LIVE_STAGES,
    PARALLEL,
    Driver,
    after_continue_as_new,
    asks,
    awaiting_decisions,
    call,
    done,
    idle,
    make_agent,
    ok,
    pending,
    reject,
    resume,
    says,
    segment_of,
    snapshot_of,
    truncated,
    without_run,
)
from wakeful.contract.decisions import ResumeMode
from wakeful.contract.events import EventRecord, StepEnd
from wakeful.contract.runs import OnBusy, Usage
from wakeful.contract.stopping import ConsecutiveErrors, LoopDetection
from wakeful.contract.tools import ToolResult
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.facts import InferenceReturned, SignalMalformed
from wakeful.loop.machine.stages import BetweenSteps
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.continue_as_new import TAIL_BYTES, pack, pending_commands, size_of, unpack

STAGES = {**LIVE_STAGES, "without a run": without_run, "idle": idle, "done": done}


@pytest.mark.parametrize("stage", STAGES)
def test_a_thread_is_unchanged_in_the_next_execution_in_every_stage(stage: str) -> None:
    state = STAGES[stage]().thread
    assert unpack(pack(snapshot_of(state))) == snapshot_of(replace(state, transcript=state.transcript.sent()))


def test_the_snapshot_has_decisions_refusals_and_ids() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2"), call("c3")))
    driver.tool("c1", pending("s1"))
    driver.decide(reject("s1", id="d1"))
    driver.decide(resume("c2", id="d2"))
    driver.feed(SignalMalformed("submit", "not a message"))
    assert after_continue_as_new(driver.thread) == driver.thread


def test_queued_messages_have_the_snapshot_as_their_source() -> None:
    driver = idle()
    driver.submit("m0")
    driver.submit("m1", "m2")
    driver.submit("m3", on_busy=OnBusy.STEER)
    after = after_continue_as_new(driver.thread)
    sources = [(submitted.source, submitted.group) for submitted in (*after.queued, *after.steering)]
    assert sources == [
        ("snapshot:m1", "2"),
        ("snapshot:m2", "2"),
        ("snapshot:m3", "3"),
    ]


def long_thread() -> Driver:
    driver = Driver()
    for number in range(3):
        driver.model(asks(call(f"c{number}")))
        driver.tool(f"c{number}", ok("x" * (TAIL_BYTES // 2)))
    return driver


def test_messages_that_are_not_archived_are_never_left_out() -> None:
    driver = long_thread()
    assert after_continue_as_new(driver.thread).transcript.messages == driver.thread.transcript.messages
    segments = (segment_of(driver.thread, messages=3),)
    after = unpack(pack(replace(snapshot_of(driver.thread), segments=segments)))
    assert after.segments == segments
    assert after.thread.transcript.before.length == 3


def test_events_that_are_not_archived_go_along() -> None:
    record = EventRecord(seq=9, at=7, run_id="r1", agent_id="a", event=StepEnd())
    snapshot = replace(snapshot_of(idle().thread), events=(record,))
    assert unpack(pack(snapshot)).events == (record,)


def test_old_messages_are_left_out_and_the_digest_chain_continues() -> None:
    driver = long_thread()
    segments = (segment_of(driver.thread, messages=driver.thread.transcript.length),)
    after = unpack(pack(replace(snapshot_of(driver.thread), segments=segments))).thread
    assert after.transcript.ref == driver.thread.transcript.ref
    assert [message.tool_call_id for message in after.transcript.messages] == [None, "c2"]
    now, answer = driver.now, InferenceReturned(driver.inference().id, says("Done."))
    assert advance(after, answer, now=now).thread.transcript.ref == driver.feed(answer).thread.transcript.ref


def test_messages_that_the_pending_inference_appends_are_kept_whatever_their_size() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("x" * TAIL_BYTES))
    segments = (segment_of(driver.thread, messages=3),)
    assert len(unpack(pack(replace(snapshot_of(driver.thread), segments=segments))).thread.transcript.messages) == 2


def test_the_size_of_a_snapshot_is_that_of_its_payload() -> None:
    packed = pack(snapshot_of(replace(idle().thread, active_agent="漢字")))
    (written,) = PydanticPayloadConverter().to_payloads([packed])
    assert size_of(packed) == len(written.data)


@pytest.mark.parametrize("stage", ["resolving", "inferring", "calling tools"])
def test_commands_in_flight_are_issued_again(stage: str) -> None:
    driver = LIVE_STAGES[stage]()
    assert {command.id for command in pending_commands(after_continue_as_new(driver.thread))} == driver.thread.in_flight


def test_a_tool_call_is_issued_again_unchanged() -> None:
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1", arguments={"at": "?"}), call("c2")))
    driver.tool("c1", pending("s1", mode=ResumeMode.PASS_DECISION_TO_TOOL))
    driver.decide(resume("c1", {"at": "Paris"}, id="d1"))
    assert pending_commands(after_continue_as_new(driver.thread)) == (
        driver.tool_commands("c1")[-1],
        driver.tool_commands("c2")[-1],
    )


def test_a_resolution_and_an_inference_are_issued_again_unchanged() -> None:
    driver = Driver(agent=None)
    assert pending_commands(after_continue_as_new(driver.thread)) == tuple(driver.commands)
    driver.resolve()
    (command,) = pending_commands(after_continue_as_new(driver.thread))
    assert command == replace(driver.inference(), appended=())


def test_an_inference_that_continues_a_truncated_answer_is_issued_again_unchanged() -> None:
    driver = Driver()
    driver.model(truncated("Once upon"))
    (command,) = pending_commands(after_continue_as_new(driver.thread))
    assert command == replace(driver.inference(), appended=())


@pytest.mark.parametrize("state", [awaiting_decisions().thread, idle().thread, done().thread])
def test_a_waiting_thread_issues_no_command_again(state: Thread) -> None:
    assert pending_commands(after_continue_as_new(state)) == ()


def test_a_run_between_two_steps_or_being_cancelled_issues_no_command_again() -> None:
    between = LIVE_STAGES["inferring"]().thread.entering(BetweenSteps())
    assert (pending_commands(between), pending_commands(LIVE_STAGES["cancelling"]().thread)) == ((), ())


def test_a_snapshot_is_deterministic() -> None:
    """Two workers that replay one history must write the same snapshot."""
    driver = Driver(PARALLEL)
    driver.model(asks(*(call(f"c{number}") for number in range(4))))
    for number in range(4):
        driver.tool(f"c{number}", pending(f"s{number}"))
    for number in range(3):
        driver.decide(reject(f"c{number}", id=f"d{number}"))
    packed = pack(snapshot_of(driver.thread))
    assert packed == pack(snapshot_of(unpack(packed).thread))
    assert [outcome.id for outcome in unpack(packed).thread.outcomes] == ["r1:1", "d0", "d1", "d2"]


def test_what_stop_conditions_count_is_in_the_snapshot() -> None:
    """B-085"""
    conditions = (ConsecutiveErrors(max=3), LoopDetection(window=3))
    driver = Driver(make_agent().model_copy(update={"stop_conditions": conditions}))
    driver.model(asks(call("c1"), text="Again.", usage=Usage(total_tokens=5)))
    driver.tool("c1", ToolResult.error("look", "fog"))
    run = driver.thread.current
    assert (run.step.rounds, run.step.failed_rounds, len(run.step.recent_answers)) == (1, 1, 1)
    assert after_continue_as_new(driver.thread).current == run
