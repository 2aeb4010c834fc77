"""The context window in the loop: a compaction is scheduled once, its summary is used, and a rollback drops it."""

import pytest

from tests.loop.driving import (
    REQUEST,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    call,
    make_agent,
    ok,
    says,
    truncated,
    with_hooks,
)
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import replace
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.context import Compaction, CompactionMark, ContextMessage, ContextPolicy, ContextReport
from wakeful.contract.hooks import LifecyclePhase
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import TextBlock
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy, Usage
from wakeful.loop.machine.commands import Compact
from wakeful.loop.machine.facts import CompactionReturned, WorkCancelled, WorkFailed

POLICY = ContextPolicy(max_context_tokens=10_000, max_output_tokens=1_000, autocompact_threshold=5_000)
MARK = CompactionMark(through=1, summary="short", pre_tokens=6_000, post_tokens=100)


def agent(policy: ContextPolicy | None = POLICY) -> ResolvedAgent:
    return make_agent().model_copy(update={"context": policy})


def reporting(response: ModelResponse, history_tokens: int, prompt_tokens: int | None = None) -> ModelResponse:
    report = ContextReport(estimated_tokens=history_tokens, history_tokens=history_tokens)
    return response.model_copy(update={"context": report, "usage": Usage(prompt_tokens=prompt_tokens)})


def compactions(driver: Driver) -> list[Compact]:
    return [command for command in driver.last.commands if isinstance(command, Compact)]


def pressed() -> Driver:
    """A run whose conversation exceeds the compaction threshold while a tool call is running."""
    driver = Driver(agent())
    driver.model(reporting(asks(call("c1")), 6_000))
    return driver


def test_a_conversation_over_the_threshold_is_summarised_in_the_background() -> None:
    """B-460"""
    driver = pressed()
    (command,) = compactions(driver)
    assert (command.id, command.previous, command.token_factor) == ("compact-1", None, 1.0)
    assert driver.thread.context.compacting == "compact-1"
    driver.tool("c1", ok("sunny"))
    driver.model(reporting(asks(call("c2")), 7_000))
    assert compactions(driver) == []


@pytest.mark.parametrize("policy", [None, POLICY])
def test_a_conversation_under_the_threshold_is_not_summarised(policy: ContextPolicy | None) -> None:
    driver = Driver(agent(policy))
    driver.model(reporting(asks(call("c1")), 4_000))
    assert compactions(driver) == []


def test_a_conversation_that_the_model_rejects_is_summarised_without_a_policy() -> None:
    driver = Driver(agent(None))
    report = ContextReport(estimated_tokens=900, history_tokens=4_000, dropped=3, limit=1_000)
    driver.model(asks(call("c1")).model_copy(update={"context": report}))
    (command,) = compactions(driver)
    assert (command.limit, command.token_factor) == (1_000, 1.0)


def test_a_summary_is_used_from_the_next_inference_on() -> None:
    """B-464"""
    driver = pressed()
    driver.feed(CompactionReturned("compact-1", MARK))
    assert driver.thread.context.compaction == Compaction(source="compact-1", mark=MARK)
    driver.tool("c1", ok("sunny"))
    assert driver.inference().compaction == "compact-1"
    driver.model(reporting(asks(call("c2")), 6_000))
    assert compactions(driver)[0].previous == "compact-1"


def test_a_summary_of_the_whole_conversation_is_not_the_response_of_the_run() -> None:
    """H-22: the conversation keeps the answer that the summary covers."""
    driver = Driver(agent(), request=THREAD)
    driver.model(reporting(says("It is sunny."), 6_000))
    driver.feed(CompactionReturned("compact-1", replace(MARK, through=2)))
    assert (driver.result.response, driver.texts) == ("It is sunny.", ["Hello", "It is sunny."])
    driver.submit("m1")
    driver.resolve(agent())
    assert driver.inference().compaction == "compact-1"
    driver.model(says("Still sunny."))
    assert (driver.result.response, driver.texts[1]) == ("Still sunny.", "It is sunny.")


@pytest.mark.parametrize("fact", [CompactionReturned("compact-1", None), WorkFailed("compact-1", "no money")])
def test_a_failed_compaction_changes_nothing_and_is_not_retried_at_once(
    fact: CompactionReturned | WorkFailed,
) -> None:
    driver = pressed()
    driver.feed(fact)
    assert (driver.thread.context.compacting, driver.thread.context.compaction) == (None, None)
    driver.tool("c1", ok("sunny"))
    driver.model(reporting(says("Done."), 6_001))
    assert compactions(driver) == []
    assert driver.result.status_reason == "natural"


def test_a_summary_can_arrive_while_the_thread_is_idle() -> None:
    driver = Driver(agent(), request=THREAD)
    driver.model(reporting(says("Hello!"), 6_000))
    driver.feed(CompactionReturned("compact-1", MARK))
    assert driver.thread.context.compaction == Compaction(source="compact-1", mark=MARK)


@pytest.mark.parametrize("grows", [False, True])
def test_a_summary_of_messages_that_a_rollback_has_removed_is_discarded_when_it_arrives(grows: bool) -> None:
    driver = Driver(agent(), request=THREAD)
    for number in range(6):
        answer = asks(call(f"c{number}"))
        driver.model(reporting(answer, 6_000) if number == 5 else answer)
        driver.tool(f"c{number}", ok("sunny"))
    position = driver.thread.transcript.position_at(9)
    assert position is not None
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    driver.resolve(agent())
    for number in range(6 if grows else 0):
        driver.model(asks(call(f"d{number}")))
        driver.tool(f"d{number}", ok("rainy"))
    driver.feed(CompactionReturned("compact-1", MARK.model_copy(update={"through": 9, "digest": position.digest})))
    assert (driver.thread.context.compacting, driver.thread.context.compaction) == (None, None)
    assert (driver.thread.transcript.length >= 9, driver.thread.context.skipped_at) == (grows, None)


def test_a_summary_of_messages_that_a_rollback_has_kept_is_used_when_it_arrives() -> None:
    driver = Driver(agent(), request=THREAD)
    driver.model(says("Hello!"))
    driver.submit("m1")
    driver.resolve(agent())
    driver.model(reporting(asks(call("c1")), 6_000))
    kept = driver.thread.transcript.position_at(2)
    assert kept is not None
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    driver.cancel_in_flight()
    driver.resolve(agent())
    mark = MARK.model_copy(update={"through": 2, "digest": kept.digest})
    driver.feed(CompactionReturned("compact-1", mark))
    assert driver.thread.context.compaction == Compaction(source="compact-1", mark=mark)


def test_a_summary_of_messages_that_only_an_earlier_execution_has_is_used() -> None:
    driver = pressed()
    transcript = driver.thread.transcript
    driver.last = replace(
        driver.last,
        thread=replace(driver.thread, transcript=replace(transcript, messages=(), before=transcript.position)),
    )
    driver.feed(CompactionReturned("compact-1", MARK.model_copy(update={"through": 0, "digest": "lost"})))
    assert driver.thread.context.compaction is not None


def test_a_run_that_ends_with_its_thread_pays_for_no_summary() -> None:
    driver = Driver(agent())
    driver.model(reporting(says("Done."), 6_000))
    assert (compactions(driver), driver.thread.counters.compactions) == ([], 0)


@pytest.mark.parametrize("request_", [REQUEST, THREAD], ids=["run", "thread"])
def test_hooks_at_the_end_of_a_run_do_not_change_whether_a_summary_is_made(request_: RunRequest) -> None:
    driver = Driver(with_hooks(LifecyclePhase.RUN_END, agent=agent()), request=request_)
    driver.model(reporting(says("Done."), 6_000))
    assert len(compactions(driver)) == (request_ is THREAD)


@pytest.mark.parametrize("response", [truncated("Once upon"), asks(call("c1"))], ids=["continued answer", "tool call"])
def test_a_summary_is_made_from_the_transcript_that_the_model_was_asked_about(response: ModelResponse) -> None:
    driver = Driver(agent())
    asked = driver.thread.transcript.ref
    driver.model(reporting(response, 6_000))
    (command,) = compactions(driver)
    assert (command.transcript, driver.last.commands[0]) == (asked, command)


def test_the_run_under_way_pays_for_a_summary() -> None:
    driver = Driver(agent(), request=REQUEST.model_copy(update={"budget": Budget(tokens=1_000)}))
    driver.model(reporting(asks(call("c1")), 6_000))
    driver.feed(CompactionReturned("compact-1", MARK, Usage(total_tokens=999, cost=0.5)))
    assert driver.thread.current.usage == Usage(total_tokens=999, cost=0.5)
    driver.tool("c1", ok("sunny"))
    driver.model(asks(call("c2"), usage=Usage(total_tokens=2)))
    driver.tool("c2", ok("sunny"))
    assert driver.result.status_reason == "stopped:budget"
    assert driver.result.spent == Spent(tokens=1_001, cost=0.5, turns=2, tool_calls=2)


def test_the_next_run_pays_for_a_summary_that_arrives_between_two_runs() -> None:
    driver = Driver(agent(), request=THREAD)
    driver.model(reporting(says("Hello!"), 6_000))
    driver.feed(CompactionReturned("compact-1", None, Usage(total_tokens=9)))
    assert driver.result.usage == Usage()
    assert after_continue_as_new(driver.thread).context == driver.thread.context
    driver.submit("m1")
    driver.resolve(agent())
    driver.model(says("More.", Usage(total_tokens=1)))
    assert driver.result.usage == Usage(total_tokens=10)
    driver.submit("m2")
    driver.resolve(agent())
    driver.model(says("Even more."))
    assert driver.result.usage == Usage()


def test_a_rollback_drops_the_summary_of_messages_it_removes() -> None:
    driver = Driver(agent(), request=THREAD)
    driver.model(reporting(says("Hello!"), 6_000))
    driver.submit("m1")
    driver.resolve()
    driver.feed(CompactionReturned("compact-1", MARK.model_copy(update={"through": 3})))
    driver.submit("m2", on_busy=OnBusy.ROLLBACK)
    driver.feed(*(WorkCancelled(id) for id in driver.thread.in_flight))
    assert driver.thread.context.compaction is None


def test_estimates_are_corrected_by_what_the_provider_reports() -> None:
    driver = Driver(agent())
    driver.model(reporting(asks(call("c1")), 1_000, prompt_tokens=2_000))
    driver.tool("c1", ok("sunny"))
    factor = driver.inference().token_factor
    assert factor is not None
    assert factor > 1.0


def test_estimates_are_not_corrected_by_estimates() -> None:
    driver = Driver(agent())
    answer = reporting(asks(call("c1")), 1_000)
    driver.model(answer.model_copy(update={"usage": Usage(prompt_tokens=2_000, estimated=True)}))
    driver.tool("c1", ok("sunny"))
    assert driver.inference().token_factor == 1.0


def test_context_messages_are_sent_and_their_cooldown_is_kept() -> None:
    """B-480, B-483"""
    reminder = ContextMessage(key="tone", content=(TextBlock(text="Be kind."),), persistent=True, cooldown_turns=2)
    driver = Driver(agent().model_copy(update={"context_messages": (reminder,)}))
    shown = []
    for number in range(3):
        shown.append(driver.inference().context)
        driver.model(asks(call(f"c{number}")))
        driver.tool(f"c{number}", ok("sunny"))
    assert shown == [(reminder,), (), (reminder,)]
