"""Forks: the points of a thread that they can start from, what they start with, and what they do not inherit."""

from tests.loop.driving import (
    AGENT,
    REQUEST,
    THREAD,
    Driver,
    asks,
    call,
    input_message,
    merge_op,
    ok,
    pending,
    resume,
    says,
    set_op,
    state_effects,
    truncated,
    with_hooks,
)
from wakeful.contract.base import replace
from wakeful.contract.budgets import Budget
from wakeful.contract.carryover import Carryover, Counters
from wakeful.contract.context import AgentContext, Compaction, CompactionMark, LastShown
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.requests import Fork, RunRequest
from wakeful.contract.runs import ForkedFrom, OnBusy, Origin, RunIdentity
from wakeful.contract.users import Users
from wakeful.loop.machine.commands import ResolveAgent
from wakeful.loop.machine.facts import AgentResolved, MessagesSubmitted
from wakeful.loop.machine.stages import Inferring
from wakeful.loop.machine.state import Advance, ContextState, Thread
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.thread.fork_points import ForkPoint
from wakeful.loop.thread.opening import begin
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition

FORK = Fork(thread_id="t0", run_id="0190", step=1, messages=3)
DENY_LOOK = Rule(tool="look", behavior=Behavior.DENY)
ALLOW_PAY = Rule(tool="pay", behavior=Behavior.ALLOW)

SHOWN = (LastShown(key="tone", step=3, content="9f"),)


class ForkPointDriver(Driver):
    """A driver that records fork points."""

    fork_points: tuple[ForkPoint, ...] = ()

    def feed(self, *facts: object) -> Advance:
        for fact in facts:
            super().feed(fact)  # type: ignore[arg-type]  # as Driver.feed's
            self.fork_points += self.last.fork_points
        return self.last

    @property
    def lengths(self) -> list[int]:
        return [point.position.length for point in self.fork_points]


def past_transcript() -> Transcript:
    """A message, an answer with a call, and its result."""
    driver = Driver()
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("seen"))
    return driver.thread.transcript.sent()


def fork_of(carryover: Carryover | None = None, *, says: str = "", request: RunRequest | None = None) -> Advance:
    request = request or RunRequest(agent_id="assistant", input=says, fork=FORK)
    return begin(request, thread_id="t1", run_id="r9", transcript=past_transcript(), carryover=carryover)


def test_every_step_ends_with_a_fork_point() -> None:
    run = ForkPointDriver()
    run.model(asks(call("c1"), call("c2")))
    run.tool("c1", ok("one"))
    assert run.lengths == []
    run.tool("c2", ok("two"))
    run.model(says("Done."))
    assert run.lengths == [4, 5]
    assert run.fork_points[-1].position == run.thread.transcript.position


def test_a_suspended_step_has_its_fork_point_after_the_decision() -> None:
    run = ForkPointDriver()
    run.model(asks(call("c1")))
    run.tool("c1", pending("s1"))
    assert run.lengths == []
    run.decide(resume("c1"))
    run.tool("c1", ok("seen"))
    assert run.lengths == [3]


def test_a_steering_message_comes_after_the_fork_point() -> None:
    run = ForkPointDriver()
    run.model(asks(call("c1")))
    run.submit("m1", on_busy=OnBusy.STEER)
    run.tool("c1", ok("seen"))
    assert (run.lengths, run.thread.transcript.length) == ([3], 4)


def test_a_note_about_a_step_comes_before_its_fork_point() -> None:
    run = ForkPointDriver()
    run.model(truncated("I was just"))
    assert (run.lengths, run.thread.transcript.length) == ([3], 3)


def test_a_run_that_is_cancelled_within_a_step_ends_with_a_fork_point() -> None:
    run = ForkPointDriver()
    run.model(asks(call("c1")))
    run.cancel("enough")
    run.tool("c1", ok("seen"))
    assert run.lengths == [3]


def test_a_fork_point_has_the_agent_state_of_its_step() -> None:
    """The next run, which starts at once, has other run-scoped state; the fork point does not."""
    run = ForkPointDriver(with_hooks(), request=THREAD)
    run.model(asks(call("c1")))
    run.tool("c1", ok("seen"), state_effects(set_op("draft", "one"), merge_op("visits", 1)))
    run.submit("m1")
    run.model(says("Done."), state_effects(set_op("draft", "two"), base=1))
    first, last = run.fork_points
    assert run.thread.agent_state.run == {}
    tools = run.thread.frontend_tools
    kept = Carryover(
        agent_id="assistant",
        state={"visits": 1},
        counters=Counters(runs=1, steps=1),
        frontend_tools=tools,
        users=Users(),
    )
    assert first.carryover == kept.model_copy(update={"run_state": {"draft": "one"}, "state_revision": 1})
    later = Counters(runs=1, steps=2, submissions=1)
    assert last.carryover == kept.model_copy(
        update={"run_state": {"draft": "two"}, "state_revision": 2, "counters": later}
    )


def test_a_fork_point_has_the_agent_of_the_next_step() -> None:
    state = Driver().thread
    assert state.fork_point.agent_id == "assistant"
    assert replace(state, active_agent="clerk").fork_point.agent_id == "clerk"
    assert replace(state, active_agent="clerk", requested_agent="chief").fork_point.agent_id == "chief"


def test_a_fork_point_has_permissions_counters_and_context_and_nothing_else() -> None:
    thread, counters = Driver().thread, Counters(runs=1, steps=1, tasks=3)
    run = replace(thread.current, permissions=(DENY_LOOK,))
    summary = Compaction(
        source="compact-1", mark=CompactionMark(through=1, summary="short", pre_tokens=6_000, post_tokens=100)
    )
    context = ContextState(others=(AgentContext(agent_id="billing", shown=SHOWN),), compaction=summary)
    thread = replace(thread, permissions=(ALLOW_PAY,), run=run, counters=counters, context=context)
    kept = Carryover(
        agent_id="assistant",
        permissions=(ALLOW_PAY,),
        run_permissions=(DENY_LOOK,),
        counters=counters,
        compaction=summary,
        frontend_tools=thread.frontend_tools,
        context=context.others,
        users=Users(),
    )
    assert thread.fork_point.carryover == kept
    fork = fork_of(kept).thread
    assert (fork.context, fork.frontend_tools) == (context, thread.frontend_tools)


def test_a_fork_without_input_starts_a_run() -> None:
    fork = fork_of()
    assert fork.commands == (ResolveAgent("resolve-1", "assistant"),)
    assert [event.event_type for event in fork.events] == ["run_start"]
    assert fork.thread.transcript == past_transcript()
    assert (fork.thread.counters.runs, fork.thread.current.step.number, fork.thread.identity.origin) == (
        1,
        0,
        Origin.USER,
    )
    resolved = advanced(fork.thread)
    assert isinstance(resolved.stage, Inferring)
    assert resolved.transcript.messages == past_transcript().messages


def test_the_input_of_a_fork_comes_after_the_messages_it_keeps() -> None:
    fork = fork_of(says="Not like that.")
    assert [message.text for message in fork.thread.transcript.messages] == ["Hello", "", "seen", "Not like that."]
    assert fork.thread.transcript.unsent == ("input:0",)


def test_a_fork_knows_its_origin_even_after_it_is_woken() -> None:
    identity = fork_of().thread.identity
    assert identity == RunIdentity(
        thread_id="t1", run_id="r9", agent_id="assistant", forked_from=ForkedFrom(thread_id="t0", step=1)
    )
    woken = begin(REQUEST, thread_id="t1", run_id="r10", carryover=Carryover(identity=identity))
    assert woken.thread.identity.forked_from == ForkedFrom(thread_id="t0", step=1)


def test_a_fork_starts_with_the_carryover_of_its_fork_point() -> None:
    carryover = Carryover(
        state={"visits": 1},
        run_state={"draft": "one"},
        permissions=(ALLOW_PAY,),
        run_permissions=(DENY_LOOK,),
        counters=Counters(tasks=3),
    )
    for fork in (fork_of(carryover), fork_of(carryover, says="Go on.")):
        state = fork.thread
        assert state.agent_state == AgentState(thread={"visits": 1}, run={"draft": "one"})
        assert (state.permissions, state.current.permissions, state.counters.tasks) == ((ALLOW_PAY,), (DENY_LOOK,), 3)


def test_the_next_run_of_a_fork_does_not_inherit_run_state_and_run_permissions() -> None:
    carryover = Carryover(state={"visits": 1}, run_state={"draft": "one"}, run_permissions=(DENY_LOOK,))
    request = THREAD.model_copy(update={"input": "", "fork": FORK})
    state = advanced(fork_of(carryover, request=request).thread)
    driver = Driver(request=THREAD)
    driver.last = Advance(state)
    driver.model(says("Done."))
    driver.feed(MessagesSubmitted((input_message("m1"),)))
    assert (driver.thread.agent_state.view.values, driver.thread.current.permissions) == ({"visits": 1}, ())


def test_a_fork_can_have_its_own_overrides_permissions_and_budget() -> None:
    request = RunRequest(
        agent_id="clerk",
        fork=FORK,
        overrides=InferenceOverrides(max_tokens=9),
        permissions=(ALLOW_PAY,),
        budget=Budget(tokens=7),
    )
    state = fork_of(Carryover(run_permissions=(DENY_LOOK,)), request=request).thread
    assert (state.identity.agent_id, state.current.settings.overrides, state.current.budget.limit) == (
        "clerk",
        request.overrides,
        request.budget,
    )
    assert state.current.permissions == (DENY_LOOK, ALLOW_PAY)


def test_a_fork_point_is_named_by_its_length_and_digest() -> None:
    past = past_transcript()
    assert past.position_at(3) == past.position
    assert past.position_at(0) == TranscriptPosition()
    assert past.position_at(4) is None
    tail = past.tail(1)
    assert (tail.position_at(0), tail.position_at(tail.before.length), tail.position_at(3)) == (
        None,
        tail.before,
        past.position,
    )


def advanced(state: Thread) -> Thread:
    """The thread after its agent is resolved."""
    driver = Driver()
    driver.last = Advance(state)
    driver.feed(AgentResolved("resolve-1", AGENT))
    return driver.thread
