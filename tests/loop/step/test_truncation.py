"""An answer that hits the token limit is continued, up to a limit per run, and then kept as it is."""

import pytest

from tests.loop.driving import THREAD, Driver, asks, call, make_agent, ok, says, truncated
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import Message, MessageMetadata, Role, TextBlock, Visibility
from wakeful.contract.runs import Errored, NaturalEnd, OnBusy, Usage
from wakeful.loop.machine.facts import WorkFailed
from wakeful.loop.step.model_notes import CONTINUE

NOTE = Message(
    id="r1:3",
    role=Role.USER,
    content=(TextBlock(text=CONTINUE),),
    visibility=Visibility.INTERNAL,
    metadata=MessageMetadata(run_id="r1", step_index=1),
)


def test_a_truncated_answer_is_kept_and_the_model_is_asked_to_continue_it() -> None:
    """B-140"""
    driver = Driver()
    driver.model(truncated("Once upon"))
    assert driver.thread.transcript.messages[1:] == (
        Message(
            id="r1:2",
            role=Role.ASSISTANT,
            content=(TextBlock(text="Once upon"),),
            metadata=MessageMetadata(run_id="r1", step_index=1),
        ),
        NOTE,
    )
    command = driver.inference()
    assert (command.id, command.continuing, command.appended) == ("infer-2", True, ("infer-1", NOTE))
    assert [event.event_type for event in driver.last.events] == [
        *("text_delta", "inference_complete", "step_end", "note_added", "step_start")
    ]


def test_the_note_about_the_token_limit_asks_the_model_to_continue() -> None:
    """B-140"""
    assert CONTINUE == (
        "Your last response was cut off at the output token limit. Continue exactly where it ended. "
        "Do not repeat or summarise what you have already written."
    )


def test_only_an_inference_that_continues_an_answer_is_marked_as_continuing() -> None:
    driver = Driver()
    assert not driver.inference().continuing
    driver.model(truncated("Once upon"))
    driver.model(asks(call("c1"), text=" a time"))
    driver.tool("c1", ok("sunny"))
    assert not driver.inference().continuing


def test_the_response_is_the_last_part_and_every_part_is_in_the_transcript() -> None:
    driver = Driver()
    driver.model(truncated("Once upon"))
    driver.model(says(" a time."))
    assert (driver.result.termination, driver.result.response) == (NaturalEnd(), " a time.")
    assert driver.texts == ["Hello", "Once upon", CONTINUE, " a time."]


def test_a_truncated_call_is_dropped_and_the_text_before_it_is_kept() -> None:
    """B-140, B-144, I-03"""
    driver = Driver()
    driver.model(truncated("Let me look.", incomplete=("look",)))
    assert driver.texts == ["Hello", "Let me look.", CONTINUE]
    assert driver.thread.transcript.messages[1].tool_calls == ()
    assert (driver.inference().continuing, driver.thread.current.step.rounds) == (True, 0)


def test_a_truncated_call_without_text_leaves_no_empty_message() -> None:
    driver = Driver()
    driver.model(asks(call("c1"), text="Let me look."))
    driver.tool("c1", ok("sunny"))
    driver.model(truncated(incomplete=("look",)))
    assert driver.texts == ["Hello", "Let me look.", "sunny", CONTINUE]
    assert driver.inference().appended[0] == driver.thread.transcript.messages[-1]
    driver.feed(WorkFailed("infer-3", "no credit"))
    assert (driver.result.termination, driver.result.response) == (Errored(value="no credit"), "Let me look.")


@pytest.mark.parametrize("limit", [0, 1, 2, 3])
def test_a_run_continues_truncated_answers_up_to_a_limit_and_then_ends_as_usual(limit: int) -> None:
    """B-141: with the usual limit of 2 there are three calls in all."""
    driver = Driver(make_agent(max_continuations=limit))
    for number in range(limit + 1):
        assert driver.inference().id == f"infer-{number + 1}"
        driver.model(truncated(f"Part {number}"))
    assert (driver.result.termination, driver.result.steps) == (NaturalEnd(), limit + 1)
    assert (driver.result.response, driver.notes) == (f"Part {limit}", [CONTINUE] * limit)


def test_a_truncated_call_at_the_limit_of_continuations_ends_the_run_too() -> None:
    """B-141"""
    driver = Driver(make_agent(max_continuations=0))
    driver.model(truncated("Let me look.", incomplete=("look",)))
    assert (driver.result.termination, driver.texts) == (NaturalEnd(), ["Hello", "Let me look."])


def test_the_limit_of_continuations_is_per_run_and_not_per_step() -> None:
    """B-141"""
    driver = Driver(make_agent(max_continuations=1))
    driver.model(truncated("Part 1"))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    driver.model(truncated("Part 2"))
    assert driver.result.response == "Part 2"


def test_the_next_run_of_a_thread_has_all_continuations_again() -> None:
    agent = make_agent(max_continuations=1)
    driver = Driver(agent, request=THREAD)
    driver.model(truncated("Part 1"))
    driver.model(truncated("Part 2"))
    driver.submit("m1")
    driver.resolve(agent)
    assert (driver.thread.current.step.continuations, driver.inference().continuing) == (0, False)
    driver.model(truncated("Part 3"))
    assert driver.inference().continuing


@pytest.mark.parametrize(
    ("agent", "answer"),
    [(make_agent(), truncated("", call("c1"))), (make_agent(max_continuations=0), truncated("Look:", call("c1")))],
)
def test_complete_calls_of_a_truncated_answer_run(agent: ResolvedAgent, answer: ModelResponse) -> None:
    """B-142"""
    driver = Driver(agent)
    driver.model(answer)
    driver.tool("c1", ok("sunny"))
    assert (driver.tool_results, driver.notes, driver.inference().continuing) == ([("c1", "sunny")], [], False)


def test_complete_calls_run_beside_a_truncated_one_and_the_model_reads_about_both() -> None:
    """B-142, B-143: the model is not asked to repeat complete calls."""
    driver = Driver()
    driver.model(truncated("Both.", call("c1"), incomplete=("pay",)))
    driver.tool("c1", ok("sunny"))
    assert [(message.role, message.text) for message in driver.thread.transcript.messages[1:]] == [
        (Role.ASSISTANT, "Both."),
        (Role.TOOL, "sunny"),
        (
            Role.USER,
            "Your last response was cut off at the output token limit. These tool calls were not executed because "
            "their arguments are not valid JSON: pay. If you still need them, call the tools again with complete, "
            "valid JSON arguments. Use shorter arguments, or split the work into several calls.",
        ),
    ]
    assert (driver.inference().continuing, driver.thread.current.step.continuations) == (False, 0)


def test_a_truncated_answer_without_text_and_calls_ends_the_run() -> None:
    """B-014, B-140"""
    driver = Driver()
    driver.model(truncated())
    assert (driver.result.termination, driver.notes) == (NaturalEnd(), [])


def test_messages_that_arrived_meanwhile_come_after_the_note() -> None:
    driver = Driver()
    driver.submit("m1", on_busy=OnBusy.STEER)
    driver.model(truncated("Once upon"))
    assert driver.texts == ["Hello", "Once upon", CONTINUE, "And then?"]


def test_the_usage_of_every_part_counts() -> None:
    driver = Driver()
    driver.model(truncated("Once upon").model_copy(update={"usage": Usage(total_tokens=5)}))
    driver.model(says(" a time.", Usage(total_tokens=3)))
    assert driver.result.usage == Usage(total_tokens=8)
