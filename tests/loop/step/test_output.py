"""An agent with an output type: its last answer is valid, is corrected, or is an error."""

import pytest

from tests.loop.driving import REQUEST, THREAD, Driver, asks, call, make_agent, ok, says, truncated
from wakeful.contract.hooks import FinalAnswer, HookEffects
from wakeful.contract.inference import ModelResponse, OutputSpec
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock, Visibility
from wakeful.contract.runs import BehaviorRequested, Cancelled, Errored, NaturalEnd, OnBusy
from wakeful.loop.machine.facts import WorkCancelled
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.step.model_notes import CONTINUE

WEATHER = make_agent(output=OutputSpec(name="Weather", json_schema={"type": "object"}))
NOTE = (
    "Your last response does not match the required output schema: 'sky' is a required property. "
    "Respond again with only a JSON value that matches the schema: no other text, no code fence."
)
ERROR = "the answer does not match the agent's output type: 'sky' is a required property"


def unfit(text: str = "{}") -> ModelResponse:
    return says(text).model_copy(update={"output_problem": "'sky' is a required property"})


def fitting(text: str = '{"sky":"blue"}') -> ModelResponse:
    return says(text).model_copy(update={"output": {"sky": "blue"}})


def test_a_valid_answer_is_the_output() -> None:
    driver = Driver(WEATHER)
    driver.model(fitting())
    assert (driver.result.termination, driver.result.output) == (NaturalEnd(), {"sky": "blue"})
    assert driver.result.response == '{"sky":"blue"}'


def test_an_invalid_answer_is_kept_and_the_model_reads_what_is_wrong() -> None:
    driver = Driver(WEATHER)
    driver.model(unfit())
    assert driver.thread.transcript.messages[-1] == Message(
        id="r1:3",
        role=Role.USER,
        content=(TextBlock(text=NOTE),),
        visibility=Visibility.INTERNAL,
        metadata=MessageMetadata(run_id="r1", step_index=1),
    )
    assert (driver.texts, driver.inference().continuing) == (["Hello", "{}", NOTE], False)
    driver.model(fitting())
    assert (driver.result.termination, driver.result.output) == (NaturalEnd(), {"sky": "blue"})


def test_an_empty_answer_is_corrected_without_being_kept() -> None:
    driver = Driver(WEATHER)
    driver.model(unfit(""))
    assert driver.texts == ["Hello", NOTE]


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_an_answer_that_is_never_valid_is_an_error(repairs: int) -> None:
    driver = Driver(make_agent(output=OutputSpec(name="Weather", json_schema={}, max_repairs=repairs)))
    for _ in range(repairs + 1):
        driver.model(unfit())
    assert driver.result.termination == Errored(value=ERROR, code="invalid_output")
    assert (driver.result.response, driver.result.output, driver.result.steps) == ("{}", None, repairs + 1)
    assert driver.texts == ["Hello", *["{}", NOTE] * repairs, "{}"]


@pytest.mark.parametrize(("revision", "is_checked"), [(REVISION, True), (2, False)], ids=["now", "before"])
def test_a_value_that_ends_the_run_is_checked_as_an_answer_of_the_model(revision: int, is_checked: bool) -> None:
    spec = OutputSpec(name="Weather", json_schema={"type": "object", "required": ["sky"]})
    driver = Driver(make_agent(output=spec), revision=revision)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"), HookEffects(finish=FinalAnswer(text="{}", output={"wrong": 1})))
    if not is_checked:
        assert (driver.result.termination, driver.result.output) == (BehaviorRequested(), {"wrong": 1})
        return
    problem = "the answer does not match the agent's output type: 'sky' is missing"
    error = f"{problem} (a hook or a tool has finished the run with it)"
    assert driver.result.termination == Errored(value=error, code="invalid_output")
    assert (driver.result.output, driver.texts) == (None, ["Hello", "", "sunny"])


@pytest.mark.parametrize("answer", [FinalAnswer(text="It rains."), FinalAnswer(text="{}", output={"sky": "grey"})])
def test_a_text_or_a_value_of_the_type_ends_the_run(answer: FinalAnswer) -> None:
    """A text is an answer without an output: a guardrail says no in words."""
    spec = OutputSpec(name="Weather", json_schema={"type": "object", "required": ["sky"]})
    driver = Driver(make_agent(output=spec))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"), HookEffects(finish=answer))
    assert (driver.result.termination, driver.result.output) == (BehaviorRequested(), answer.output)


def test_text_beside_tool_calls_need_not_be_valid() -> None:
    driver = Driver(WEATHER)
    driver.model(asks(call("c1"), text="Let me look.").model_copy(update={"output_problem": "not JSON"}))
    driver.tool("c1", ok("sunny"))
    assert driver.notes == []


def test_corrections_are_counted_over_the_run_and_the_next_run_starts_at_zero() -> None:
    driver = Driver(WEATHER, request=THREAD)
    driver.model(unfit())
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    driver.model(unfit())
    assert driver.result.termination == Errored(value=ERROR, code="invalid_output")
    driver.submit("m1")
    driver.resolve(WEATHER)
    driver.model(unfit())
    driver.model(fitting())
    assert driver.result.output == {"sky": "blue"}


def test_the_next_run_of_a_thread_has_an_output_of_its_own() -> None:
    driver = Driver(WEATHER, request=THREAD)
    driver.model(fitting())
    driver.submit("m1")
    driver.cancel()
    driver.feed(WorkCancelled("resolve-2"))
    assert (driver.result.termination, driver.result.output) == (Cancelled(), None)


def test_only_the_last_answer_is_the_output() -> None:
    driver = Driver(WEATHER, request=REQUEST)
    driver.submit("m1")
    driver.model(fitting())
    driver.cancel()
    driver.feed(WorkCancelled("infer-2"))
    assert (driver.result.output, driver.result.response) == (None, '{"sky":"blue"}')


def test_messages_that_arrived_meanwhile_are_read_with_the_correction() -> None:
    driver = Driver(WEATHER)
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.model(unfit())
    assert driver.texts == ["Hello", "{}", NOTE, "And then?"]


def test_a_truncated_answer_is_continued_before_it_is_corrected() -> None:
    driver = Driver(WEATHER)
    driver.model(truncated('{"sky":').model_copy(update={"output_problem": "not JSON"}))
    assert driver.notes == [CONTINUE]


def test_any_answer_of_an_agent_without_an_output_type_is_valid() -> None:
    driver = Driver()
    driver.model(unfit("Hello!"))
    assert (driver.result.termination, driver.result.output) == (NaturalEnd(), None)
