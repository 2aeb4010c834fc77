"""A run from start to end: identity, input, events and its one result."""

import pytest

from tests.loop.driving import AGENT, LIVE_STAGES, Driver, asks, call, ok, says, without_run
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.budgets import Spent
from wakeful.contract.carryover import Counters
from wakeful.contract.errors import InternalError
from wakeful.contract.events import (
    FinishSummary,
    InferenceComplete,
    MessageReceived,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    TextDelta,
)
from wakeful.contract.messages import InputMessage, Message, Role, TextBlock
from wakeful.contract.outcomes import Outcome, OutcomeStatus
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Errored, NaturalEnd, OnBusy, Origin, RunIdentity, RunResult, RunStatus, Usage
from wakeful.contract.tools import FrontendTool
from wakeful.loop.machine.commands import CancelWork, ResolveAgent
from wakeful.loop.machine.facts import (
    AgentResolved,
    CancelRequested,
    DecisionsReceived,
    Fact,
    InferenceReturned,
    LoopFailed,
    MessagesSubmitted,
    SignalMalformed,
    WorkCancelled,
    WorkFailed,
)
from wakeful.loop.machine.stages import Resolving
from wakeful.loop.machine.state import Advance, BeforeRun, ContextState, Run, Thread
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.thread.opening import begin
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition

IDENTITY = RunIdentity(thread_id="t1", run_id="r1", agent_id="assistant")
BEFORE = BeforeRun("assistant", None, None, AgentState(), (), ContextState(), frontend_tools=())
HELLO = Message(id="r1:1", role=Role.USER, content=(TextBlock(text="Hello"),))
STARTED = (
    MessageReceived(message=HELLO),
    RunStart(thread_id="t1", run_id="r1", identity=IDENTITY, message_ids=("r1:1",)),
)


def finished(
    reason: str, termination: NaturalEnd | Errored, response: str = "", usage: Usage | None = None
) -> RunFinish:
    summary = FinishSummary(response=response, status=RunStatus.DONE, status_reason=reason, usage=usage)
    return RunFinish(thread_id="t1", run_id="r1", identity=IDENTITY, result=summary, termination=termination)


def test_a_run_starts_with_its_input_and_resolves_its_agent() -> None:
    """B-031"""
    assert begin(RunRequest(agent_id="assistant", input="Hello"), thread_id="t1", run_id="r1") == Advance(
        Thread(
            identity=IDENTITY,
            seed="r1",
            stage=Resolving("resolve-1"),
            transcript=Transcript().appending(HELLO, "input:0"),
            run=Run(number=1, started_at_position=TranscriptPosition(), before=BEFORE),
            counters=Counters(runs=1),
            outcomes=(Outcome(id="r1:1", status=OutcomeStatus.READ, run=1),),
        ),
        commands=(ResolveAgent("resolve-1", "assistant"),),
        events=STARTED,
    )


def test_the_identity_of_a_sub_agents_run_names_its_parent() -> None:
    request = RunRequest(
        agent_id="researcher",
        input="Hello",
        parent_thread_id="t0",
        parent_run_id="r0",
        parent_tool_call_id="c0",
        session_id="s1",
        transport_request_id="q1",
        origin=Origin.SUBAGENT,
    )
    identity = RunIdentity(
        thread_id="t1",
        parent_thread_id="t0",
        run_id="r1",
        parent_run_id="r0",
        agent_id="researcher",
        parent_tool_call_id="c0",
        session_id="s1",
        transport_request_id="q1",
        origin=Origin.SUBAGENT,
    )
    first = begin(request, thread_id="t1", run_id="r1")
    assert first.thread.identity == identity
    started = RunStart(thread_id="t1", run_id="r1", parent_run_id="r0", identity=identity, message_ids=("r1:1",))
    assert first.events == (MessageReceived(message=HELLO), started)


def test_input_messages_keep_their_ids() -> None:
    messages = (InputMessage(content="Be brief", role=Role.SYSTEM, id="m1"), InputMessage(content="Hello"))
    state = begin(RunRequest(agent_id="assistant", input=messages), thread_id="t1", run_id="r1").thread
    assert [message.id for message in state.transcript.messages] == ["m1", "r1:2"]
    assert state.transcript.unsent == ("input:0", "input:1")


def test_a_run_without_tool_calls() -> None:
    """B-014, B-042, B-043"""
    driver = Driver()
    driver.model(says("Hello!", Usage(prompt_tokens=3, completion_tokens=2)))
    assert driver.events == [
        *STARTED,
        StepStart(message_id="r1:2"),
        TextDelta(delta="Hello!"),
        InferenceComplete(model="model-1", usage=Usage(prompt_tokens=3, completion_tokens=2), duration_ms=10),
        StepEnd(),
        finished("natural", NaturalEnd(), "Hello!", Usage(prompt_tokens=3, completion_tokens=2)),
    ]
    assert driver.result == RunResult(
        thread_id="t1",
        run_id="r1",
        agent_id="assistant",
        status_reason="natural",
        termination=NaturalEnd(),
        response="Hello!",
        steps=1,
        usage=Usage(prompt_tokens=3, completion_tokens=2),
        spent=Spent(tokens=5, turns=1),
    )


def test_the_statuses_of_a_run_from_created_to_done() -> None:
    """B-001"""
    driver = Driver(agent=None)
    seen = [driver.thread.status]
    seen.append(driver.feed(AgentResolved("resolve-1", AGENT)).thread.status)
    seen.append(driver.model(says("Hello!")).thread.status)
    assert seen == [RunStatus.CREATED, RunStatus.RUNNING, RunStatus.DONE]


def test_steps_and_tokens_are_counted_over_the_whole_run() -> None:
    """B-007, H-19"""
    driver = Driver()
    driver.model(asks(call("c1"), usage=Usage(total_tokens=5)))
    driver.tool("c1", ok("sunny"))
    driver.model(says("Sunny.", Usage(total_tokens=7)))
    assert (driver.result.steps, driver.result.usage) == (2, Usage(total_tokens=12))


def test_a_thread_without_a_run_raises_if_its_run_is_needed() -> None:
    with pytest.raises(InternalError, match="a run was needed before the thread had one"):
        _ = without_run().thread.agent


def test_a_run_without_a_resolved_agent_raises_if_its_agent_is_needed() -> None:
    with pytest.raises(InternalError, match="the agent was needed before it was resolved"):
        _ = Driver(agent=None).thread.agent


@pytest.mark.parametrize(
    ("fact", "error"),
    [
        (WorkFailed("resolve-1", "no agent 'assistant'; registered: none"), "no agent 'assistant'; registered: none"),
        (WorkCancelled("resolve-1"), "it was cancelled from outside"),
        (
            InferenceReturned("resolve-1", says("Hello!")),
            "resolve-1 ended as InferenceReturned, which is not how it can end",
        ),
    ],
    ids=["failed", "cancelled", "wrong fact"],
)
def test_a_run_whose_agent_cannot_be_resolved_ends_with_the_error(fact: Fact, error: str) -> None:
    """H-12, H-17"""
    driver = Driver(agent=None)
    driver.feed(fact)
    assert driver.last.commands == ()
    assert driver.events[2:] == [finished(f"error:{error}", Errored(value=error))]
    assert driver.result.termination == Errored(value=error)


@pytest.mark.parametrize("stage", LIVE_STAGES)
def test_a_failure_of_the_loop_ends_the_run_in_every_stage(stage: str) -> None:
    """H-01, H-12"""
    driver = LIVE_STAGES[stage]()
    in_flight = driver.thread.in_flight
    driver.feed(LoopFailed("boom"))
    assert driver.last.commands == tuple(CancelWork(id) for id in sorted(in_flight))
    error = Errored(value="boom", code="internal_error")
    assert driver.result.termination == error
    assert driver.events[-1] == finished("error:boom", error)
    assert driver.event_types.count("step_start") == driver.event_types.count("step_end")
    assert driver.thread.in_flight == frozenset()


@pytest.mark.parametrize("stage", LIVE_STAGES)
def test_a_malformed_signal_is_recorded_as_a_refusal_and_changes_nothing_else(stage: str) -> None:
    driver = LIVE_STAGES[stage]()
    before = driver.thread
    driver.feed(SignalMalformed("decide", "action: Field required"))
    assert driver.last.commands == ()
    assert [(event.event_type) for event in driver.last.events] == ["signal_refused"]
    assert [(refusal.signal, refusal.reason, refusal.at) for refusal in driver.thread.refusals] == [
        ("decide", "action: Field required", driver.now)
    ]
    assert driver.thread.stage == before.stage


def test_the_newest_twenty_refusals_are_kept() -> None:
    driver = Driver()
    for number in range(25):
        driver.feed(SignalMalformed("submit", f"bad {number}"))
    assert driver.refusal_reasons == [f"bad {number}" for number in range(5, 25)]


@pytest.mark.parametrize(
    ("fact", "signal", "reason"),
    [
        (DecisionsReceived(()), "decide", "the run has ended"),
        (MessagesSubmitted((), OnBusy.REJECT), "submit", "the run has ended"),
        (CancelRequested(), "cancel", "the run has ended"),
        (SignalMalformed("decide", "not a decision"), "decide", "not a decision"),
    ],
)
def test_a_signal_after_the_end_is_refused(fact: Fact, signal: str, reason: str) -> None:
    """I-02"""
    driver = Driver()
    ended = driver.model(says("Hello!")).thread
    driver.feed(fact)
    assert [(refusal.signal, refusal.reason) for refusal in driver.thread.refusals] == [(signal, reason)]
    assert (driver.thread.stage, driver.last.commands) == (ended.stage, ())


@pytest.mark.parametrize(
    "fact",
    [
        AgentResolved("resolve-1", AGENT),
        InferenceReturned("infer-1", says("Again!")),
        WorkFailed("infer-1", "late"),
        WorkCancelled("infer-1"),
        LoopFailed("boom"),
    ],
)
def test_a_result_that_arrives_after_the_end_is_a_no_op(fact: Fact) -> None:
    """I-02"""
    driver = Driver()
    ended = driver.model(says("Hello!")).thread
    assert driver.feed(fact) == Advance(ended)


def test_a_run_sees_one_version_of_its_agent_from_start_to_end() -> None:
    """I-12"""
    driver = Driver()
    newer: ResolvedAgent = AGENT.model_copy(update={"registry_version": 2})
    before = driver.thread
    assert driver.feed(AgentResolved("resolve-1", newer)) == Advance(before)


@pytest.mark.parametrize(
    ("replaceable", "revision", "is_replaced"),
    [((), 2, False), (("other",), 2, False), (("look",), 2, True), ((), 1, True)],
)
def test_frontend_tools_belong_to_the_run_and_replace_only_tools_that_the_agent_names(
    replaceable: tuple[str, ...], revision: int, is_replaced: bool
) -> None:
    """B-240, H-23"""
    brought = (FrontendTool(id="look", description="evil"), FrontendTool(id="pick"))
    agent = AGENT.model_copy(update={"replaceable_tools": replaceable})
    request = RunRequest(agent_id="assistant", input="Hello", frontend_tools=brought)
    driver = Driver(request=request, agent=agent, revision=revision)
    look, pick = (tool.descriptor() for tool in brought)
    assert driver.inference().frontend_tools == ((look, pick) if is_replaced else (pick,))
    assert (driver.thread.tool("look") == look) is is_replaced
    assert (driver.thread.tool("pick"), driver.thread.tool("peek")) == (pick, None)
