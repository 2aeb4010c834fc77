"""The tool calls of one step: sequential or parallel, with exactly one result each."""

from collections.abc import Callable

import pytest

from tests.loop.driving import AGENT, LOOK, PARALLEL, PAY, THREAD, Driver, asks, call, ok, pending
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.events import ToolCallDone, ToolCallOutcome
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.tools import ToolResult
from wakeful.loop.machine.commands import CallTool, Infer
from wakeful.loop.machine.facts import AgentResolved, Fact, WorkCancelled, WorkFailed
from wakeful.loop.machine.stages import CallingTools, Inferring
from wakeful.loop.machine.state import Advance


def test_a_tool_is_called_with_the_models_arguments() -> None:
    driver = Driver()
    driver.model(asks(call("c1", "pay", {"amount": 5})))
    assert driver.last.commands == (
        CallTool(id=driver.work_id_of("c1"), tool=PAY, call=call("c1", "pay", {"amount": 5})),
    )


def test_sequential_calls_run_one_after_the_other() -> None:
    """B-220"""
    driver = Driver()
    driver.model(asks(call("c1"), call("c2", "pay")))
    assert [command.id for command in driver.last.commands] == [driver.work_id_of("c1")]
    driver.tool("c1", ok("sunny"))
    assert driver.last.commands == (CallTool(id=driver.work_id_of("c2"), tool=PAY, call=call("c2", "pay")),)
    driver.tool("c2", ok("paid"))
    assert driver.tool_results == [("c1", "sunny"), ("c2", "paid")]


def test_an_error_does_not_stop_a_sequential_batch() -> None:
    """B-205, B-220"""
    driver = Driver()
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", ToolResult.error("look", "Denied: not yours"))
    driver.tool("c2", ok("sunny"))
    assert driver.tool_results == [("c1", "Denied: not yours"), ("c2", "sunny")]
    assert isinstance(driver.thread.stage, Inferring)


def test_the_first_suspension_stops_a_sequential_batch() -> None:
    """B-220"""
    driver = Driver()
    driver.model(asks(call("c1"), call("c2"), call("c3"), call("c4")))
    driver.tool("c1", ok("sunny"))
    driver.tool("c2", pending("s1"))
    result = ToolResult.error("look", TOOL_INTERRUPTED)
    interrupted = [
        ToolCallDone(id=id, message_id=message_id, result=result, outcome=ToolCallOutcome.FAILED)
        for id, message_id in (("c3", "r1:5"), ("c4", "r1:6"))
    ]
    assert driver.events_of("tool_call_done")[-2:] == interrupted
    assert driver.last.commands == ()


def test_parallel_calls_all_start_at_once() -> None:
    """B-221"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2", "pay")))
    assert driver.last.commands == (
        CallTool(id=driver.work_id_of("c1"), tool=LOOK, call=call("c1")),
        CallTool(id=driver.work_id_of("c2"), tool=PAY, call=call("c2", "pay")),
    )


def test_parallel_results_are_appended_in_call_order() -> None:
    """B-221, I-03"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2"), call("c3")))
    for id in ("c3", "c1"):
        driver.tool(id, ok(id))
        assert driver.last.commands == ()
    driver.tool("c2", ok("c2"))
    assert driver.tool_results == [("c1", "c1"), ("c2", "c2"), ("c3", "c3")]
    assert [event.id for event in driver.events if isinstance(event, ToolCallDone)] == ["c3", "c1", "c2"]


def test_a_parallel_call_is_not_stopped_by_anothers_failure_or_suspension() -> None:
    """B-221"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2"), call("c3")))
    driver.tool("c1", ToolResult.error("look", "no"))
    driver.tool("c2", pending("s1"))
    assert isinstance(driver.thread.stage, CallingTools)
    assert driver.thread.in_flight == {driver.work_id_of("c3")}


def test_an_unknown_tool_becomes_an_error_result_the_model_reads() -> None:
    """B-206"""
    driver = Driver()
    driver.model(asks(call("c1", "fly")))
    result = ToolResult.error("fly", "tool 'fly' not found")
    assert driver.events_of("tool_call_done") == [
        ToolCallDone(id="c1", message_id="r1:3", result=result, outcome=ToolCallOutcome.FAILED)
    ]
    assert driver.tool_results == [("c1", "tool 'fly' not found")]
    assert isinstance(driver.thread.stage, Inferring)


@pytest.mark.parametrize("agent", [AGENT, PARALLEL], ids=["sequential", "parallel"])
def test_an_unknown_tool_does_not_affect_other_calls(agent: ResolvedAgent) -> None:
    """B-206"""
    driver = Driver(agent)
    driver.model(asks(call("c1", "fly"), call("c2"), call("c3", "fly")))
    driver.tool("c2", ok("sunny"))
    assert driver.tool_results == [("c1", "tool 'fly' not found"), ("c2", "sunny"), ("c3", "tool 'fly' not found")]


def test_a_tools_own_error_is_a_result_and_not_the_end_of_the_run() -> None:
    """B-205"""
    driver = Driver()
    driver.model(asks(call("c1")))
    result = ToolResult.error_with_code("look", "E7", "no such city")
    driver.tool("c1", result)
    assert driver.events_of("tool_call_done") == [
        ToolCallDone(id="c1", message_id="r1:3", result=result, outcome=ToolCallOutcome.FAILED)
    ]
    assert driver.tool_results == [("c1", "[E7] no such city")]


def test_an_error_that_the_activity_of_a_tool_raised_is_a_result() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool_failed("c1", "Execution failed: no such city", is_result=True)
    assert driver.tool_results == [("c1", "Execution failed: no such city")]
    assert driver.inference().id == "infer-2"


@pytest.mark.parametrize(
    ("make_fact", "reason"),
    [
        (lambda id: WorkFailed(id, "its worker was lost"), "its worker was lost"),
        (WorkCancelled, "it was cancelled from outside"),
        (lambda id: AgentResolved(id, AGENT), "{id} ended as AgentResolved, which is not how it can end"),
    ],
    ids=["failed", "cancelled", "wrong fact"],
)
def test_a_tool_call_without_a_result_reads_outcome_unknown_and_the_run_continues(
    make_fact: Callable[[str], Fact], reason: str
) -> None:
    """Whether the tool took effect is unknown, so the loop never runs it again by itself."""
    driver = Driver()
    driver.model(asks(call("c1", "pay")))
    id = driver.work_id_of("c1")
    driver.feed(make_fact(id))
    expected = (
        f"outcome unknown: {reason.format(id=id)}. It is not known whether 'pay' took effect. "
        "Check before you call it again."
    )
    assert driver.tool_results == [("c1", expected)]
    assert len(driver.tool_commands("c1")) == 1
    assert driver.inference().appended == ("infer-1", driver.thread.transcript.messages[-1])


def test_the_step_is_committed_as_a_whole_with_one_result_per_call() -> None:
    """B-038, B-642, H-04, I-03"""
    driver = Driver()
    driver.model(asks(call("c1"), call("c2"), text="Let me look."))
    driver.tool("c1", ok("sunny"))
    assert driver.tool_results == []
    driver.tool("c2", ok("rainy"))
    metadata = MessageMetadata(run_id="r1", step_index=1)
    assert driver.thread.transcript.messages[1:] == (
        Message(
            id="r1:2",
            role=Role.ASSISTANT,
            content=(TextBlock(text="Let me look."),),
            tool_calls=(call("c1"), call("c2")),
            metadata=metadata,
        ),
        Message(id="r1:3", role=Role.TOOL, content=(TextBlock(text="sunny"),), tool_call_id="c1", metadata=metadata),
        Message(id="r1:4", role=Role.TOOL, content=(TextBlock(text="rainy"),), tool_call_id="c2", metadata=metadata),
    )


def test_a_tool_result_is_appended_by_reference_and_an_error_of_the_loop_by_value() -> None:
    driver = Driver()
    driver.model(asks(call("c1"), call("c2", "fly")))
    driver.tool("c1", ok("sunny"))
    assert driver.inference().appended == (
        "infer-1",
        driver.work_id_of("c1"),
        driver.thread.transcript.messages[-1],
    )


def test_a_repeated_tool_result_is_a_no_op() -> None:
    """I-04"""
    driver = Driver(PARALLEL)
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", ok("sunny"))
    before = driver.thread
    assert driver.tool("c1", ok("rainy")) == Advance(before)


def test_parallel_calls_wait_while_as_many_run_as_the_agent_allows() -> None:
    driver = Driver(agent=PARALLEL.model_copy(update={"max_parallel_calls": 2}))
    driver.model(asks(*(call(f"c{number}") for number in range(4))))
    assert [command.id for command in driver.last.commands] == [driver.work_id_of("c0"), driver.work_id_of("c1")]
    driver.tool("c1", ok("sunny"))
    assert [command.id for command in driver.last.commands] == [driver.work_id_of("c2")]
    for id in ("c0", "c2", "c3"):
        driver.tool(id, ok("rain"))
    assert [id for id, _ in driver.tool_results] == ["c0", "c1", "c2", "c3"]


def test_the_model_reads_how_many_of_its_calls_were_dropped() -> None:
    driver = Driver(agent=PARALLEL)
    driver.model(asks(call("c1")).model_copy(update={"dropped_calls": 44}))
    driver.tool("c1", ok("sunny"))
    note = driver.thread.transcript.messages[-1]
    assert note.text.startswith("Only the first 1 tool calls of your last response were executed, and 44 were not.")


@pytest.mark.parametrize("fact", [WorkFailed("infer-2", "too large", was_scheduled=False), None])
def test_what_an_inference_was_given_that_was_never_scheduled_is_given_to_the_next_one(fact: Fact | None) -> None:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    (infer,) = driver.last.commands
    assert isinstance(infer, Infer)
    if fact is None:
        driver.cancel("stop")
        fact = WorkCancelled(infer.id, was_scheduled=False)
    driver.feed(fact)
    driver.submit("m1")
    driver.feed(AgentResolved(driver.last.commands[-1].id, AGENT, 1))
    (again,) = driver.last.commands
    assert isinstance(again, Infer)
    assert again.appended[: len(infer.appended)] == infer.appended
    assert len(again.appended) == again.transcript.length - 1
