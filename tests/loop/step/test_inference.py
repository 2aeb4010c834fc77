"""The answer of a model: its events, what the run does with it, and how an inference can fail."""

import pytest

from tests.loop.driving import AGENT, Driver, asks, call, make_agent, ok, says
from wakeful.contract.events import (
    InferenceComplete,
    ReasoningDelta,
    ReasoningEncryptedValue,
    StepEnd,
    StepStart,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallReady,
    ToolCallStart,
)
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock, ThinkingBlock
from wakeful.contract.runs import Errored, NaturalEnd, StopDetail, Stopped, Usage
from wakeful.loop.machine.commands import Infer
from wakeful.loop.machine.facts import AgentResolved, Fact, InferenceReturned, WorkCancelled, WorkFailed
from wakeful.loop.machine.state import Advance


def test_inference_commands_have_references_of_constant_size() -> None:
    driver = Driver(agent=None)
    driver.feed(AgentResolved("resolve-1", AGENT))
    assert driver.last.commands == (
        Infer(
            id="infer-1",
            agent=AGENT,
            step=1,
            transcript=driver.thread.transcript.ref,
            appended=("input:0",),
            frontend_tools=driver.thread.frontend_tools,
        ),
    )


def test_the_events_of_a_step_with_a_tool_call_have_a_fixed_order() -> None:
    """B-035, B-042, B-043, B-111"""
    driver = Driver()
    driver.model(asks(call("c1", arguments={"at": "Århus"}), text="Let me look."))
    driver.tool("c1", ok("sunny"))
    assert driver.events[2:] == [
        StepStart(message_id="r1:2"),
        TextDelta(delta="Let me look."),
        ToolCallStart(id="c1", name="look"),
        ToolCallDelta(id="c1", args_delta='{"at":"Århus"}'),
        ToolCallReady(id="c1", name="look", arguments={"at": "Århus"}),
        InferenceComplete(model="model-1", usage=Usage(), duration_ms=10),
        ToolCallDone(id="c1", message_id="r1:3", result=ok("sunny"), outcome=ToolCallOutcome.SUCCEEDED),
        StepEnd(),
        StepStart(message_id="r1:4"),
    ]


def test_reasoning_is_emitted_before_text_and_both_are_kept() -> None:
    driver = Driver()
    driver.model(ModelResponse(model="model-1", reasoning="Hm.", text="Hello!"))
    assert driver.events_of("reasoning_delta", "text_delta") == [ReasoningDelta(delta="Hm."), TextDelta(delta="Hello!")]
    assert driver.thread.transcript.messages[-1] == Message(
        id="r1:2",
        role=Role.ASSISTANT,
        content=(ThinkingBlock(thinking="Hm."), TextBlock(text="Hello!")),
        metadata=MessageMetadata(run_id="r1", step_index=1),
    )


def test_signed_reasoning_is_emitted_as_one_delta_with_its_signatures_and_kept_unchanged() -> None:
    """B-702"""
    blocks = (ThinkingBlock(thinking="Hm. ", signature="s1"), ThinkingBlock(thinking="Yes.", signature="s2"))
    driver = Driver()
    driver.model(ModelResponse(model="model-1", thinking=blocks, text="Hello!"))
    assert driver.events_of("reasoning_delta", "reasoning_encrypted_value", "text_delta") == [
        ReasoningDelta(delta="Hm. Yes."),
        ReasoningEncryptedValue(encrypted_value="s1"),
        ReasoningEncryptedValue(encrypted_value="s2"),
        TextDelta(delta="Hello!"),
    ]
    assert driver.thread.transcript.messages[-1].content == (*blocks, TextBlock(text="Hello!"))


def test_reasoning_that_only_its_provider_can_read_has_no_delta() -> None:
    """B-702"""
    driver = Driver()
    driver.model(ModelResponse(model="model-1", thinking=(ThinkingBlock(thinking="", signature="s1"),), text="Hello!"))
    encrypted = ReasoningEncryptedValue(encrypted_value="s1")
    assert driver.events_of("reasoning_delta", "reasoning_encrypted_value") == [encrypted]


def test_an_empty_answer_ends_the_run_and_is_kept() -> None:
    """B-014"""
    driver = Driver()
    driver.model(says(""))
    assert driver.result.termination == NaturalEnd()
    assert driver.thread.transcript.messages[-1].role is Role.ASSISTANT
    assert driver.events_of("text_delta") == []


def test_the_response_is_the_newest_text_of_the_model() -> None:
    """B-041; awaken: latest_run_response_uses_current_run_non_tool_output"""
    driver = Driver()
    driver.submit("m1")
    driver.model(says("First."))
    driver.model(says("Second."))
    assert driver.result.response == "Second."


def test_text_beside_a_tool_call_is_the_response_if_no_newer_text_follows() -> None:
    """B-040, B-041"""
    driver = Driver(make_agent(max_rounds=1))
    driver.model(asks(call("c1"), text="Let me look."))
    driver.tool("c1", ok("sunny"))
    assert driver.result.response == "Let me look."


def test_a_clock_that_goes_back_gives_a_duration_of_zero() -> None:
    driver = Driver()
    driver.now = -100
    driver.model(says("Hello!"))
    assert driver.events_of("inference_complete") == [InferenceComplete(model="model-1", usage=Usage(), duration_ms=0)]


@pytest.mark.parametrize(
    ("fact", "error"),
    [
        (WorkFailed("infer-1", "inference failed: 401", code="unauthorized"), "inference failed: 401"),
        (WorkCancelled("infer-1"), "it was cancelled from outside"),
        (AgentResolved("infer-1", AGENT), "infer-1 ended as AgentResolved, which is not how it can end"),
    ],
    ids=["failed", "cancelled", "wrong fact"],
)
def test_an_inference_that_fails_for_good_ends_the_run_with_the_error(fact: Fact, error: str) -> None:
    """B-021, H-12, H-17"""
    driver = Driver()
    driver.feed(fact)
    code = fact.code if isinstance(fact, WorkFailed) else ""
    termination = Errored(value=error, code=code)
    assert (driver.result.termination, driver.result.status_reason) == (termination, f"error:{error}")
    assert driver.last.ended == (driver.result,)
    assert driver.event_types == ["message_received", "run_start", "step_start", "step_end", "run_finish"]
    assert driver.last.commands == ()


@pytest.mark.parametrize("ids", [("c1", "c1"), ("",)], ids=["repeated", "empty"])
def test_tool_calls_with_equal_or_empty_ids_end_the_run(ids: tuple[str, ...]) -> None:
    driver = Driver()
    driver.model(asks(*(call(id) for id in ids)))
    error = f"inference failed: the answer's tool calls have no distinct ids: {list(ids)!r}"
    assert driver.result.termination == Errored(value=error, code="invalid_answer")
    assert driver.event_types[-2:] == ["step_end", "run_finish"]


def test_every_call_that_is_ready_is_done_or_cancelled() -> None:
    """I-07"""
    driver = Driver()
    driver.model(asks(call("c1"), call("c1")))
    assert len(driver.events_of("tool_call_ready")) == len(driver.events_of("tool_call_done", "tool_call_cancel"))


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_run_stops_at_max_rounds_without_a_wasted_inference(rounds: int) -> None:
    """B-082, B-086, H-16, H-17"""
    driver = Driver(make_agent(max_rounds=rounds))
    for number in range(rounds):
        driver.model(asks(call(f"c{number}")))
        driver.tool(f"c{number}", ok("sunny"))
    detail = StopDetail(code="max_rounds", detail=f"{rounds} rounds of tool calls were made")
    assert driver.result.termination == Stopped(value=detail)
    assert (driver.result.status_reason, driver.result.steps) == ("stopped:max_rounds", rounds)
    assert driver.last.commands == ()


def test_an_agent_without_max_rounds_is_not_stopped() -> None:
    """B-082"""
    driver = Driver(make_agent(max_rounds=0))
    for number in range(20):
        driver.model(asks(call(f"c{number}")))
        driver.tool(f"c{number}", ok("sunny"))
    assert driver.inference().id == "infer-21"


def test_a_repeated_answer_is_a_no_op() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    before = driver.thread
    assert driver.feed(InferenceReturned("infer-1", asks(call("c2")))) == Advance(before)
