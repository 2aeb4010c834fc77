"""What hooks and tools request: to end the run with an answer of their own, to change the next request, to forget."""

from collections.abc import Callable

import pytest

from tests.loop.children import BILLING
from tests.loop.conversation import conversation_of, entries_of
from tests.loop.driving import (
    AGENT,
    REQUEST,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    call,
    ok,
    pending,
    resume,
    says,
    with_hooks,
)
from wakeful.contract.context import ContextMessage
from wakeful.contract.events import AnswerGiven, RunFinish
from wakeful.contract.hooks import FinalAnswer, HookEffects, LifecyclePhase, RequestChanges
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import Role, TextBlock
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.runs import BehaviorRequested, Blocked, NaturalEnd, StopDetail, Stopped
from wakeful.loop.machine.commands import Infer
from wakeful.loop.step.hooks import requested_end
from wakeful.loop.thread.continue_as_new import pending_commands

SUNNY = HookEffects(finish=FinalAnswer(text="It is sunny."))
SKIPPED = ModelResponse(model="model-1", skipped=True)


def at_start() -> Driver:
    driver = Driver(with_hooks(LifecyclePhase.RUN_START), request=THREAD)
    driver.hooks(SUNNY)
    return driver


def before_inference() -> Driver:
    driver = Driver(request=THREAD)
    driver.model(SKIPPED, SUNNY)
    return driver


def after_inference() -> Driver:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1"), text="Let me see."), SUNNY)
    return driver


def from_a_tool() -> Driver:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"), SUNNY)
    return driver


@pytest.mark.parametrize("finishing", [at_start, before_inference, after_inference, from_a_tool])
def test_a_hook_or_a_tool_ends_the_run_as_completed_with_its_own_answer_b015(finishing: Callable[[], Driver]) -> None:
    driver = finishing()
    assert (driver.result.termination, driver.result.status_reason) == (BehaviorRequested(), "behavior_requested")
    assert driver.result.response == "It is sunny."
    (*_, last) = driver.thread.transcript.messages
    assert (last.role, last.text) == (Role.ASSISTANT, "It is sunny.")
    assert driver.events_of("answer_given") == [AnswerGiven(message_id=last.id, text="It is sunny.")]
    assert conversation_of(driver.events) == entries_of(driver.thread.transcript.messages)
    driver.submit("m1")
    driver.resolve()
    driver.model(says("Still sunny."))
    assert driver.result.termination == NaturalEnd()
    assert driver.texts[-3:] == ["It is sunny.", "And then?", "Still sunny."]


def test_the_answer_of_a_tool_waits_for_the_other_calls_of_its_step() -> None:
    driver = Driver()
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", ok(1), SUNNY)
    driver.tool("c2", pending("s1"))
    assert driver.events_of("answer_given") == []
    driver.decide(resume("c2"))
    driver.tool("c2", ok(2))
    assert driver.result.response == "It is sunny."
    assert [role for role, _, _ in entries_of(driver.thread.transcript.messages)] == [
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.TOOL,
        Role.ASSISTANT,
    ]


def test_an_answer_can_be_a_value_of_the_agents_output_type() -> None:
    driver = Driver()
    driver.model(SKIPPED, HookEffects(finish=FinalAnswer(text='{"a": 1}', output={"a": 1})))
    assert (driver.result.response, driver.result.output) == ('{"a": 1}', {"a": 1})
    (finished,) = driver.events_of("run_finish")
    assert isinstance(finished, RunFinish)
    assert finished.result is not None
    assert finished.result.output == {"a": 1}


def test_an_empty_answer_is_no_message() -> None:
    driver = Driver()
    driver.model(SKIPPED, HookEffects(finish=FinalAnswer()))
    assert (driver.result.termination, driver.texts) == (BehaviorRequested(), ["Hello"])
    assert driver.events_of("answer_given") == []


def test_a_stop_and_a_block_win_over_an_answer_and_the_first_answer_counts() -> None:
    enough = StopDetail(code="enough")
    assert requested_end(SUNNY.model_copy(update={"stop": enough})) == Stopped(value=enough)
    driver = Driver()
    driver.model(SKIPPED, SUNNY.model_copy(update={"block": "no"}))
    assert (driver.result.termination, driver.texts) == (Blocked(value="no", code="plugin"), ["Hello"])
    driver = Driver()
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", ok(1), SUNNY)
    driver.tool("c2", ok(2), HookEffects(finish=FinalAnswer(text="It rains."), stop=enough))
    assert driver.result.response == "It is sunny."


def test_an_answer_at_the_end_of_a_run_comes_too_late() -> None:
    driver = Driver(with_hooks(LifecyclePhase.RUN_END))
    driver.model(says("Hello!"))
    driver.hooks(SUNNY)
    assert (driver.result.termination, driver.result.response) == (NaturalEnd(), "Hello!")
    assert driver.texts == ["Hello", "Hello!"]


COOL = RequestChanges(overrides=InferenceOverrides(temperature=0), excluded=("pay",))


def test_a_tool_changes_the_next_request_and_no_later_one_b058() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    assert driver.inference().changes is None
    driver.tool("c1", ok(1), HookEffects(next_request=COOL))
    assert driver.inference().changes == COOL
    driver.model(asks(call("c2")))
    driver.tool("c2", ok(2))
    assert driver.inference().changes is None


def test_changes_of_several_calls_are_merged_in_call_order_b204() -> None:
    driver = Driver()
    driver.model(asks(call("c1"), call("c2")))
    warm = InferenceOverrides(temperature=1, max_tokens=9)
    driver.tool("c1", ok(1), HookEffects(next_request=RequestChanges(overrides=warm, included=("look",))))
    more = RequestChanges(overrides=InferenceOverrides(temperature=0), included=("pay", "none"), excluded=("pick",))
    driver.tool("c2", ok(2), HookEffects(next_request=more))
    assert driver.inference().changes == RequestChanges(
        overrides=InferenceOverrides(temperature=0, max_tokens=9), included=("look", "pay"), excluded=("pick",)
    )


def test_a_request_that_includes_no_tool_that_the_agent_has_includes_none() -> None:
    driver = Driver()
    driver.model(says("Hm."), HookEffects(retry="Again.", next_request=RequestChanges(included=("none",))))
    assert driver.inference().changes == RequestChanges(included=())


def test_changes_are_not_lost_if_the_thread_continues_as_new_during_the_request() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1), HookEffects(next_request=COOL))
    (command,) = pending_commands(after_continue_as_new(driver.thread))
    assert isinstance(command, Infer)
    assert command.changes == COOL


def test_an_agent_that_takes_over_does_not_inherit_changes_of_a_request() -> None:
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool("c1", ok(1), HookEffects(next_request=COOL, handoff=BILLING.agent_id))
    driver.resolve(BILLING)
    assert driver.inference().changes is None


def test_context_messages_are_removed_by_prefix_or_all_of_them_b484() -> None:
    def after(effects: HookEffects) -> list[str]:
        added = tuple(
            ContextMessage(key=key, content=(TextBlock(text=key),), persistent=True) for key in ("a.1", "a.2", "b")
        )
        driver = Driver(AGENT, request=REQUEST)
        driver.model(asks(call("c1")), HookEffects(context=added))
        driver.tool("c1", ok(1), effects)
        return [message.key for message in driver.inference().context]

    new = ContextMessage(key="a.3", content=(TextBlock(text="new"),))
    assert after(HookEffects()) == ["a.1", "a.2", "b"]
    assert after(HookEffects(forget_prefixes=("a.",), context=(new,))) == ["a.3", "b"]
    assert after(HookEffects(forget_prefixes=("",))) == []
