"""Any order of facts: whatever comes back, fails, is decided, repeated, submitted or cancelled, the invariants hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.loop.driving import REQUEST, THREAD, a_message, an_agent, asks, pending, says
from tests.loop.watching import Watched
from wakeful.contract.agents import ResolvedAgent, ToolMode
from wakeful.contract.decisions import Decision, DecisionAction, ResumeMode
from wakeful.contract.inference import (
    InferenceOverrides,
    Interruption,
    ModelResponse,
    OutputSpec,
    RecoveryPlan,
    StopReason,
)
from wakeful.contract.messages import ToolCall
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy, RunStatus, Usage
from wakeful.contract.tools import ToolOutcome, ToolResult
from wakeful.loop.commands import CallTool, Infer, ResolveAgent
from wakeful.loop.facts import (
    AgentResolved,
    CancelRequested,
    Fact,
    InferenceReturned,
    LoopBroken,
    MessagesSubmitted,
    SignalNotUnderstood,
    ToolReturned,
    WorkFailed,
    WorkStopped,
)
from wakeful.loop.state import REVISION, Done

T = TypeVar("T")

CALL_IDS = ("a", "b", "c", "suspend_a")
SUSPENSION_IDS = ("s", "suspend_a", "a", "s:b")


@dataclass(frozen=True)
class Return:
    """One of the works in flight ends: as it is meant to, badly if it is a tool, or badly whatever it is."""

    which: int
    ending: Literal["returned", "tool lost", "tool stopped", "failed", "stopped"]
    result: ToolResult


@dataclass(frozen=True)
class Again:
    """Work that has ended comes back once more."""

    which: int


@dataclass(frozen=True)
class Answer:
    """A decision about a name: one that the run has used (counted from the newest), or any other."""

    target: int | str
    action: DecisionAction
    id: str | None


@dataclass(frozen=True)
class Decide:
    answers: tuple[Answer, ...]


Move = Return | Again | Decide | MessagesSubmitted | CancelRequested | SignalNotUnderstood | LoopBroken


def often(usual: T, *others: T) -> st.SearchStrategy[T]:
    """The usual value, and once in a while another."""
    return st.sampled_from((*[usual] * 10, *others))


calls = st.builds(ToolCall, id=st.sampled_from(CALL_IDS), name=often("look", "pick", "pick", "fly"))


breaks = st.builds(
    Interruption,
    cause=st.just("connection reset"),
    plan=st.sampled_from(RecoveryPlan),
    call_id=st.sampled_from((None, "dropped")),
    call_name=st.sampled_from((None, "look")),
)


@st.composite
def answers(draw: st.DrawFn) -> ModelResponse:
    """None to four calls; once in a while alike, cut off, garbled, broken off or unfit."""
    asked = draw(st.lists(calls, min_size=draw(often(1, 0, 0)), max_size=4))
    told_apart = asked if draw(often(False, True)) else list({call.id: call for call in asked}.values())
    failings = {
        "stop_reason": draw(often(StopReason.END_TURN, *[StopReason.MAX_TOKENS] * 5)),
        "incomplete_calls": draw(often((), ("look",), ("look", "pay"))),
        "interruptions": tuple(draw(st.lists(breaks, max_size=draw(often(0, 1, 2))))),
        "output_problem": draw(often(None, "not JSON", "not JSON")),
    }
    answer = asks(*told_apart, text=draw(st.sampled_from(("", "Hm."))), usage=Usage(total_tokens=1))
    return answer.model_copy(update=failings)


suspensions = [pending(id, mode=mode) for id in (None, *SUSPENSION_IDS) for mode in ResumeMode]
results = st.sampled_from(
    (*[ToolResult.success("look", "sunny")] * 10, *[ToolResult.error("look", "no such city")] * 5, *suspensions)
)
returns = st.builds(
    Return,
    which=st.integers(0, 3),
    ending=st.sampled_from((*["returned"] * 24, *["tool lost"] * 2, *["tool stopped"] * 2, "failed", "stopped")),
    result=results,
)
decisions = st.builds(
    Answer,
    target=st.one_of(st.integers(0, 2), st.integers(0, 9), st.sampled_from((*CALL_IDS, *SUSPENSION_IDS, "nobody"))),
    action=often(DecisionAction.RESUME, DecisionAction.CANCEL, DecisionAction.CANCEL),
    id=st.sampled_from((None, "d1", "d2", "d3")),
)
decides = st.builds(Decide, st.lists(decisions, min_size=1, max_size=2).map(tuple))
submitted = st.builds(
    a_message,
    st.sampled_from("vwxyz"),
    group=st.sampled_from(("g1", "g2")),
    overrides=often(None, InferenceOverrides(max_tokens=9), InferenceOverrides(max_tokens=9)),
)
submits = st.builds(
    MessagesSubmitted,
    st.lists(submitted, max_size=2).map(tuple),
    on_busy=st.sampled_from((*[OnBusy.ENQUEUE] * 4, *OnBusy)),
)
KINDS: Mapping[str, st.SearchStrategy[Move]] = {
    "return": returns,
    "decide": decides,
    "submit": submits,
    "again": st.builds(Again, st.integers(0, 9)),
    "garble": st.just(SignalNotUnderstood("decide", "not a decision")),
}
WEIGHTED = (*["return"] * 7, *["decide"] * 5, "submit", "again", "garble")


@st.composite
def moves(draw: st.DrawFn) -> Move:
    return draw(KINDS[draw(st.sampled_from(WEIGHTED))])


ends: st.SearchStrategy[Move] = st.sampled_from(
    (CancelRequested(), CancelRequested("enough"), CancelRequested(close=True), LoopBroken("boom"))
)
requests = st.sampled_from((REQUEST, THREAD))
agents = st.builds(
    an_agent,
    st.sampled_from(ToolMode),
    max_rounds=often(16, 0, 1, 2),
    max_continuations=st.sampled_from((2, 1, 0)),
    output=st.sampled_from((None, OutputSpec(name="Weather", json_schema={}, max_repairs=1))),
)


@st.composite
def programs(draw: st.DrawFn) -> list[Move]:
    """Moves, perhaps an end that comes from outside, and what comes after it."""
    before = [draw(moves()) for _ in range(draw(st.integers(0, 24)))]
    end = draw(st.none() | ends)
    after = [draw(moves()) for _ in range(draw(st.integers(0, 4)))]
    return [*before, *([end] if end else []), *after]


class World:
    """Performs a run's commands in any order, and sometimes badly."""

    def __init__(
        self, request: RunRequest, agent: ResolvedAgent, script: Sequence[ModelResponse], revision: int = REVISION
    ) -> None:
        self.run = Watched(request)
        self.agent = agent
        self.revision = revision
        self.script = list(script)
        self.past: list[Fact] = []

    def make(self, move: Move) -> None:
        match move:
            case Return():
                self.end_work(move)
            case Again(which=which):
                if self.past:
                    self.run.feed(self.past[which % len(self.past)])
            case Decide(answers=answers):
                self.run.send(tuple(self.decision(answer) for answer in answers))
            case _:
                self.run.feed(move)

    def end_work(self, move: Return) -> None:
        if in_flight := sorted(self.run.state.in_flight):
            fact = self.fact(in_flight[move.which % len(in_flight)], move)
            self.past.append(fact)
            self.run.feed(fact)

    def fact(self, id: str, move: Return) -> Fact:
        command = self.run.issued[id]
        a_tool = isinstance(command, CallTool)
        if move.ending == "failed" or (a_tool and move.ending == "tool lost"):
            return WorkFailed(id, "its worker was lost")
        if move.ending == "stopped" or (a_tool and move.ending == "tool stopped"):
            return WorkStopped(id)
        match command:
            case ResolveAgent():
                return AgentResolved(self.agent, id, self.revision)
            case Infer():
                return InferenceReturned(id, self.unique(self.script.pop(0)) if self.script else says("Done."))
            case CallTool():
                return ToolReturned(id, ToolOutcome(result=move.result))
            case stop:
                raise AssertionError(f"{stop} is never in flight")

    def unique(self, response: ModelResponse) -> ModelResponse:
        """The call ids of one step are not those of another: the inference activity sees to it."""
        again = self.run.ready.keys() | self.run.answers.suspended_as.keys()
        calls = tuple(
            call.model_copy(update={"id": f"{call.id}_{self.run.state.inferences}"}) if call.id in again else call
            for call in response.tool_calls
        )
        return response.model_copy(update={"tool_calls": calls})

    def decision(self, answer: Answer) -> Decision:
        names = self.run.names
        target = names[-1 - answer.target % len(names)] if isinstance(answer.target, int) else answer.target
        return Decision(target=target, action=answer.action, decision_id=answer.id)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    request=requests,
    agent=agents,
    script=st.lists(answers(), min_size=1, max_size=5),
    program=programs(),
    revision=often(REVISION, *range(1, REVISION)),
)
def test_the_invariants_hold_after_any_order_of_facts(
    request: RunRequest, agent: ResolvedAgent, script: list[ModelResponse], program: list[Move], revision: int
) -> None:
    """I-02 to I-07"""
    world = World(request, agent, script, revision)
    for move in program:
        world.make(move)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(request=requests, agent=agents, script=st.lists(answers(), max_size=4), program=programs())
def test_a_thread_whose_work_comes_back_comes_to_rest_and_can_then_be_closed(
    request: RunRequest, agent: ResolvedAgent, script: list[ModelResponse], program: list[Move]
) -> None:
    """I-02, H-01, H-06"""
    world = World(request, agent, script)
    for move in program:
        world.make(move)
    while world.run.state.in_flight:
        world.end_work(Return(0, "returned", ToolResult.success("look", "sunny")))
    assert world.run.state.status in (RunStatus.WAITING, RunStatus.DONE)
    world.run.feed(CancelRequested(close=True))
    assert isinstance(world.run.state.stage, Done)
