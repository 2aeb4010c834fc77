"""A Temporal reset counts steps again from the reset point: the lineage tells the new calls from the undone ones."""

from tests.loop.driving import (
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    call,
    inferring,
    make_ticket,
    ok,
    resume,
    says,
)
from wakeful.contract.gates import Block, Suspend
from wakeful.contract.messages import Message
from wakeful.contract.runs import Blocked
from wakeful.loop.machine.commands import CallTool, Infer
from wakeful.loop.machine.facts import HistoryReset
from wakeful.loop.machine.stages import AwaitingDecisions, Done, Inferring

RESET = HistoryReset("7f3a2c")


def test_every_inference_after_a_reset_has_the_lineage() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.feed(RESET)
    assert driver.last.commands == ()
    driver.tool("c1", ok("sunny"))
    assert [command.lineage for command in driver.commands_of(Infer)] == ["", "7f3a2c"]


def test_the_next_reset_begins_another_lineage() -> None:
    driver = Driver()
    driver.feed(RESET)
    driver.feed(HistoryReset("0b1c2d"))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    assert driver.commands_of(Infer)[-1].lineage == "0b1c2d"
    assert driver.thread.counters.lineage == "0b1c2d"


def test_calls_of_an_answer_that_was_under_way_at_a_reset_have_ids_of_the_new_lineage() -> None:
    driver = inferring()
    driver.feed(RESET)
    driver.model(asks(call("1-1"), call("1-2")))
    assert [command.call.id for command in driver.commands_of(CallTool)] == ["1.7f3a2c-1"]
    driver.tool("1.7f3a2c-1", ok("sunny"))
    driver.tool("1.7f3a2c-2", ok("rainy"))
    # History has the answer with the ids that its activity gave, so the next request spells it out.
    answer, *_ = driver.inference().appended
    assert isinstance(answer, Message)
    assert [asked.id for asked in answer.tool_calls] == ["1.7f3a2c-1", "1.7f3a2c-2"]
    driver.model(asks(call("2.7f3a2c-1")))
    driver.tool("2.7f3a2c-1", ok("windy"))
    assert driver.inference().appended[0] == "infer-2"


def test_calls_of_an_answer_that_was_under_way_at_two_resets_have_ids_of_the_second() -> None:
    driver = inferring()
    driver.feed(RESET)
    driver.feed(HistoryReset("0b1c2d"))
    driver.model(asks(call("1.7f3a2c-1"), call("not one of ours")))
    assert [command.call.id for command in driver.commands_of(CallTool)] == ["1.0b1c2d-1"]
    driver.tool("1.0b1c2d-1", ok("sunny"))
    assert driver.commands_of(CallTool)[-1].call.id == "not one of ours"


def test_verdicts_and_suspensions_follow_calls_into_the_new_lineage() -> None:
    driver = inferring()
    driver.feed(RESET)
    permission = Suspend(ticket=make_ticket("perm_1-1"))
    driver.model(asks_gated(call("1-1"), call("1-2"), **{"1-1": permission, "1-2": Suspend(ticket=make_ticket("own"))}))
    stage = driver.thread.stage
    assert isinstance(stage, AwaitingDecisions)
    first, second = stage.batch.suspended
    assert (first.ticket.suspension.id, first.ticket.pending.id) == ("perm_1.7f3a2c-1", "1.7f3a2c-1")
    assert (second.ticket.suspension.id, second.ticket.pending.id) == ("own", "1.7f3a2c-2")
    driver.decide(resume("1-1"))
    assert driver.refusal_reasons == ["unknown key: tool call or suspension '1-1' not found"]


def test_a_call_that_a_gate_blocks_is_blocked_in_the_new_lineage() -> None:
    driver = inferring()
    driver.feed(RESET)
    driver.model(asks_gated(call("1-1"), **{"1-1": Block(reason="not here")}))
    assert isinstance(driver.thread.stage, Done)
    assert driver.result.termination == Blocked(value="not here")


def test_an_answer_without_calls_stays_where_history_records_it() -> None:
    driver = inferring()
    driver.feed(RESET)
    driver.submit("m1")
    driver.model(says("Hello!"))
    assert "infer-1" in driver.inference().appended


def test_an_inference_that_the_next_execution_starts_labels_the_calls_itself() -> None:
    driver = inferring()
    driver.feed(RESET)
    stage = after_continue_as_new(driver.thread).stage
    assert isinstance(stage, Inferring)
    assert stage.lineage == ""
