"""B-080 to B-087, H-16, H-17, H-20: which stop condition an answer meets, and what the conditions count."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.loop.driving import AGENT, PARALLEL, Driver, asks, call, ok, pending, reject, says, truncated
from wakeful.contract.base import replace
from wakeful.contract.inference import ModelResponse
from wakeful.contract.runs import RunStatus, StopDetail, Stopped, Usage
from wakeful.contract.stopping import (
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopCondition,
    StopOnTool,
    Timeout,
    TokenBudget,
)
from wakeful.contract.tools import ToolResult
from wakeful.loop.machine.facts import TimerFired
from wakeful.loop.machine.state import Run, Step
from wakeful.loop.step.stopping import (
    INVALID_REGEX,
    MAX_PATTERN,
    MAX_WINDOW,
    first_met,
    recent_answers_after,
    stop_problems,
)
from wakeful.loop.thread.transcript import TranscriptPosition
from wakeful.permissions.text_matcher import TEXT_LIMIT

NOW = 100_000
SAYS = says("Hello!")
ASKS = asks(call("c1"))


def run_with(*conditions: StopCondition, usage: Usage | None = None, alarmed_at: int = 0, **counted: Any) -> Run:
    """A run of an agent with these conditions."""
    agent = AGENT.model_copy(update={"stop_conditions": conditions})
    return Run(
        number=1,
        started_at_position=TranscriptPosition(),
        started_at=NOW,
        alarmed_at=alarmed_at,
        resolved=agent,
        step=Step(**counted),
        usage=usage or Usage(),
    )


def met(run: Run, response: ModelResponse = SAYS) -> str | None:
    """The code of the condition that the answer meets."""
    detail = first_met(run, response)
    return None if detail is None else detail.code


def test_conditions_are_written_with_their_type_b080() -> None:
    written = [
        {"type": "max_rounds", "rounds": 3},
        {"type": "timeout", "seconds": 1.5},
        {"type": "token_budget", "max_total": 10},
        {"type": "consecutive_errors", "max": 2},
        {"type": "stop_on_tool", "tool_name": "pay"},
        {"type": "content_match", "pattern": "DONE$"},
        {"type": "loop_detection", "window": 3},
    ]
    read = TypeAdapter(tuple[StopCondition, ...]).validate_python(written)
    assert [condition.model_dump() for condition in read] == written
    assert stop_problems(read) == []


def test_an_agent_without_conditions_is_never_stopped() -> None:
    assert first_met(run_with(), ASKS) is None


def test_the_first_condition_of_the_list_wins_b081() -> None:
    first, second = ContentMatch(pattern="Hello"), ConsecutiveErrors(max=1)
    failing = run_with(first, second, failed_rounds=1)
    assert met(failing) == "content_match"
    assert met(run_with(second, first, failed_rounds=1)) == "consecutive_errors"
    assert met(failing, says("Bye!")) == "consecutive_errors"


def test_the_detail_says_which_condition_was_met_h17() -> None:
    run = run_with(
        alarmed_at=NOW + 2000,
        rounds=2,
        failed_rounds=3,
        recent_answers=("a", "a"),
        usage=Usage(prompt_tokens=8, completion_tokens=4),
    )
    conditions: dict[StopCondition, str] = {
        Timeout(seconds=1.5): "1.5 seconds have passed",
        TokenBudget(max_total=10): "12 tokens were used; 10 are allowed",
        ConsecutiveErrors(max=2): "every tool call failed, 3 rounds in a row",
        StopOnTool(tool_name="look"): "the model asked for 'look'",
        ContentMatch(pattern="^Let"): "the answer matches '^Let'",
        LoopDetection(window=2): "the model gave the same answer 2 times in a row",
    }
    for condition, text in conditions.items():
        agent = AGENT.model_copy(update={"stop_conditions": (condition,)})
        detail = first_met(replace(run, resolved=agent), asks(call("c1"), text="Let me see"))
        assert detail == StopDetail(code=condition.type, detail=text)


def test_max_rounds_stops_the_run_before_another_answer_is_paid_for_b082_h16() -> None:
    driver = Driver(AGENT.model_copy(update={"max_rounds": 2}))
    for number in range(2):
        driver.model(asks(call(f"c{number}")))
        driver.tool(f"c{number}", ok("sunny"))
    detail = StopDetail(code="max_rounds", detail="2 rounds of tool calls were made")
    assert (driver.result.termination, driver.result.steps) == (Stopped(value=detail), 2)
    assert driver.last.commands == ()


def test_a_max_rounds_condition_is_no_condition_of_an_answer_b082() -> None:
    """The registry records it as the agent's `max_rounds`."""
    assert met(run_with(MaxRounds(rounds=2), rounds=2), ASKS) is None


@pytest.mark.parametrize(("after", "code"), [(1999, None), (2000, "timeout")])
def test_a_timeout_is_met_when_its_alarm_has_gone_off_since_the_run_began_b083(after: int, code: str | None) -> None:
    assert met(run_with(Timeout(seconds=2), alarmed_at=NOW + after)) == code


def test_a_timeout_sets_an_alarm_of_its_own_and_stops_the_run_with_its_next_answer_b083() -> None:
    conditions = (Timeout(seconds=2), Timeout(seconds=5))
    driver = Driver(AGENT.model_copy(update={"stop_conditions": conditions}))
    started = driver.thread.current.started_at
    assert driver.thread.next_alarm == started + 2000
    driver.now += 60_000  # the clock alone changes nothing
    assert driver.feed(TimerFired(started + 1000)).thread.next_alarm == started + 2000
    early = Driver(AGENT.model_copy(update={"stop_conditions": conditions}))
    early.feed(TimerFired(started + 2000))  # while the model writes
    early.model(asks(call("c1")))
    assert early.result.status_reason == "stopped:timeout"
    assert driver.model(asks(call("c1"))).thread.status is RunStatus.RUNNING
    driver.feed(TimerFired(started + 2000))
    assert (driver.thread.next_alarm, driver.thread.status) == (started + 5000, RunStatus.RUNNING)
    driver.tool("c1", ok("done"))
    driver.model(asks(call("c2")))
    assert driver.result.status_reason == "stopped:timeout"


@pytest.mark.parametrize(
    ("usage", "code"),
    [
        (Usage(), None),
        (Usage(prompt_tokens=6, completion_tokens=4), None),
        (Usage(prompt_tokens=6, completion_tokens=5), "token_budget"),
        (Usage(prompt_tokens=6, completion_tokens=4, total_tokens=11), "token_budget"),
        (Usage(total_tokens=11), "token_budget"),
    ],
)
def test_a_token_budget_is_met_when_the_run_has_used_more_b083(usage: Usage, code: str | None) -> None:
    assert met(run_with(TokenBudget(max_total=10), usage=usage)) == code


@pytest.mark.parametrize(("rounds", "code"), [(1, None), (2, "consecutive_errors"), (3, "consecutive_errors")])
def test_consecutive_errors_are_rounds_in_which_every_call_failed_b084(rounds: int, code: str | None) -> None:
    assert met(run_with(ConsecutiveErrors(max=2), failed_rounds=rounds), ASKS) == code


FAILED = ToolResult.error("look", "it failed")


@pytest.mark.parametrize(
    ("results", "count"),
    [
        ((FAILED,), 3),
        ((FAILED, FAILED), 3),
        ((FAILED, ok("seen")), 0),
        ((pending("s1"),), 0),
        ((), 3),
    ],
    ids=["failed", "all failed", "one succeeded", "cancelled by a person", "none was valid"],
)
def test_one_call_that_did_not_fail_resets_the_count_b084(results: tuple[ToolResult, ...], count: int) -> None:
    driver = Driver(PARALLEL)
    for number in range(2):
        driver.model(asks(call(f"f{number}")))
        driver.tool(f"f{number}", FAILED)
    calls = [call(f"c{number}") for number in range(len(results))]
    driver.model(asks(*calls).model_copy(update={"incomplete_calls": () if calls else ("look",)}))
    for made, result in zip(calls, results, strict=True):
        driver.tool(made.id, result)
    if driver.thread.batch is not None:
        driver.decide(reject("c0"))
    assert driver.thread.current.step.failed_rounds == count


def test_stop_on_tool_ends_the_run_before_the_tool_runs_b087() -> None:
    state = run_with(StopOnTool(tool_name="pay"))
    assert met(state, asks(call("c1"), call("c2", "pay"))) == "stop_on_tool"
    assert met(state, ASKS) is None
    assert met(state, truncated(incomplete=("pay",))) is None


def test_the_answer_that_meets_a_condition_is_not_kept_and_its_calls_do_not_run_b016() -> None:
    driver = Driver(AGENT.model_copy(update={"stop_conditions": (StopOnTool(tool_name="look"),)}))
    driver.model(asks(call("c1"), text="Let me see."))
    assert (driver.result.status_reason, driver.result.response) == ("stopped:stop_on_tool", "Let me see.")
    assert (driver.tool_commands("c1"), driver.texts) == ([], ["Hello"])


def test_content_match_stops_the_run_where_its_pattern_is_found_b087() -> None:
    state = run_with(ContentMatch(pattern=r"(?i)task \w+$"))
    assert met(state, says("So: TASK done")) == "content_match"
    assert met(state, says("task done, or so")) is None


def test_an_invalid_regex_stops_the_run_and_is_refused_when_the_registry_is_built_b087() -> None:
    detail = first_met(run_with(ContentMatch(pattern="(")), SAYS)
    assert detail is not None
    assert detail.code == INVALID_REGEX
    assert detail.detail is not None
    assert detail.detail.startswith("'(' is not a regular expression")
    assert stop_problems([ContentMatch(pattern="(")]) == [f"content_match: {detail.detail}"]


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:[ab]*a[ab]{0,800}b){30}c",
        "[ab]*a[ab]{500}c",
        "a{501,}",
        "(a{30}){30}",
        "(a{30})*{30}",
        "[[:alpha:](]{501}",
        "x" * (MAX_PATTERN + 1),
    ],
)
def test_a_pattern_that_could_block_a_workflow_is_rejected(pattern: str) -> None:
    assert len(stop_problems([ContentMatch(pattern=pattern)])) == 1
    assert met(run_with(ContentMatch(pattern=pattern))) == INVALID_REGEX


@pytest.mark.parametrize(
    "pattern",
    [
        r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
        r"\x{48}ello{1}!{0,3}",
        r"^(?:I give up|\[STOP\]|\(done\))[)\]]?",
        "x" * MAX_PATTERN,
    ],
)
def test_ordinary_patterns_are_accepted(pattern: str) -> None:
    assert stop_problems([ContentMatch(pattern=pattern)]) == []


def test_only_the_end_of_a_very_long_answer_is_searched() -> None:
    state = run_with(ContentMatch(pattern="DONE"))
    assert met(state, says("." * 3 * TEXT_LIMIT + "DONE")) == "content_match"
    assert met(state, says("DONE" + "." * 3 * TEXT_LIMIT)) is None


def hearing(run: Run, *texts: str) -> Run:
    for text in texts:
        run = replace(run, step=replace(run.step, recent_answers=recent_answers_after(run, says(text))))
    return run


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        (("Hm.", "Hm."), None),
        (("Hm.", "Hm.", "Hm."), "loop_detection"),
        (("Ah!", "Hm.", "Hm.", "Hm.", "Hm."), "loop_detection"),
        (("Hm.", "Hm.", "Ah!", "Hm."), None),
        (("Hm.", "Hm.", "", "Hm."), None),
        (("", "", ""), None),
        (("\ud800", "\ud800", "\ud800"), "loop_detection"),
    ],
)
def test_a_loop_is_the_same_answer_several_times_in_a_row_b087(texts: tuple[str, ...], code: str | None) -> None:
    assert met(hearing(run_with(LoopDetection(window=3)), *texts)) == code


def test_only_as_many_answers_are_kept_as_are_compared() -> None:
    assert hearing(run_with(), "Hm.", "Hm.").step.recent_answers == ()
    assert (
        len(hearing(run_with(LoopDetection(window=2), LoopDetection(window=4)), *["Hm."] * 9).step.recent_answers) == 4
    )
    assert len(hearing(run_with(LoopDetection(window=500)), *["Hm."] * 150).step.recent_answers) == MAX_WINDOW


def test_a_window_that_can_never_fill_is_rejected() -> None:
    problem = "loop_detection: the window is 101; at most 100 answers can be compared"
    assert stop_problems([LoopDetection(window=100), LoopDetection(window=101), MaxRounds(rounds=1)]) == [problem]
