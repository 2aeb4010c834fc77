"""An attempt on a worker that lacks what it needs executes nothing, and leaves the work to other workers."""

from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from tests.activities.attempts import ONCE, START, Attempts
from tests.activities.wiring import cache_of, raw
from wakeful import Agent, Plugin, Registry, ScriptedModel, gate, say, tool
from wakeful.authoring.gate import GateCall
from wakeful.authoring.hook_contexts import BeforeInference, HookContext
from wakeful.contract.agents import HistoryBudget, ResolvedAgent, ResolveInput
from wakeful.contract.error_text import error_text
from wakeful.contract.hooks import HookEffects, HooksInput, LifecyclePhase
from wakeful.contract.inference import InferInput, ModelResponse, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall
from wakeful.contract.missing import NOT_ON_THIS_WORKER
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolCallInput, ToolOutcome
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful_activities import HooksActivity, InferActivity, ResolveActivity, ToolActivity, other_workers
from wakeful_activities.heartbeats import HeartbeatIntervals
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.other_workers import OtherWorkers, Patience
from wakeful_activities.user_code import UserCode

ASKED = Message(id="m1", role=Role.USER, content=(TextBlock(text="hello"),))
IDENTITY = RunIdentity(thread_id="t", run_id="r", agent_id="new")

ran: list[str] = []


@tool
async def pay() -> str:
    """Pay."""
    ran.append("pay")
    return "paid"


@gate
async def careful(_call: GateCall) -> None:
    """Allows everything."""


class Older(Plugin):
    """The release before: without a hook before the run."""

    id = "watcher"

    async def before_inference(self, ctx: BeforeInference) -> None:
        pass


class Newer(Older):
    async def run_start(self, ctx: HookContext) -> None:
        pass


NEW = Registry(
    agents=[
        Agent(id="new", model="own", tools=[pay]),
        Agent(id="gated", gates=[careful], tools=[pay]),
        Agent(id="hooked", plugins=[Newer()], tools=[pay]),
    ],
    models={"own": ScriptedModel([say("hello")]), "default": ScriptedModel([say("hello")])},
)
OLD = Registry(agents=[Agent(id="old")], models={"default": ScriptedModel([say("hello")])})
OLD_PLUGIN = Registry(agents=[Agent(id="old", plugins=[Older()])], models={"default": ScriptedModel([say("hello")])})


class Worker:
    """The activities of one worker."""

    def __init__(self, registry: Registry, patience: timedelta = timedelta(minutes=15)) -> None:
        code, cache = UserCode(), cache_of(*(NEW.resolve(id) for id in NEW.agents))
        others = OtherWorkers(registry, Patience(timedelta(minutes=2), patience), worker="1@host")
        hooks, gates = Hooks(registry, code), Gates(registry, code)
        resolve = ResolveActivity(registry, cache, code, others, budget=HistoryBudget())
        self.resolve = resolve.resolve_agent
        self.infer = InferActivity(registry, cache, hooks, gates, {}, others=others).infer
        self.call_tool = ToolActivity(registry, cache, hooks, gates, code, others=others).call_tool
        self.run_hooks = HooksActivity(cache, hooks, HeartbeatIntervals(), others).run_hooks


def infer_input(agent: str) -> InferInput:
    ref = TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, ASKED))
    return InferInput(agent=NEW.resolve(agent).digest(), transcript=ref, appended=(ASKED,), identity=IDENTITY)


def tool_input(agent: ResolvedAgent | None = None) -> Any:
    call = ToolCall(id="1-1", name="pay", arguments={})
    digest = agent.digest() if agent else None
    return raw(ToolCallInput(call=call, identity=IDENTITY, idempotency_key="k", agent=digest))


async def test_the_agent_of_a_new_run_is_looked_up_on_other_workers_for_two_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """H-25. The worker logs it once."""
    attempts, lookup, old = Attempts(), ResolveInput(agent_id="new"), Worker(OLD)
    first = await attempts.make(old.resolve, lookup)
    assert (first.type, first.non_retryable) == (NOT_ON_THIS_WORKER, False)
    assert first.message == (
        "agent not found: 'new'; registered: old [missing since 2026-01-01 00:00:00 UTC; other workers are tried until "
        "2026-01-01 00:02:00 UTC]"
    )
    while not (error := await attempts.make(old.resolve, lookup)).non_retryable:
        pass
    assert error.type == "AgentNotFound"
    assert error.message == "agent not found: 'new'; registered: old; no worker had it within 0:02:00"
    assert timedelta(seconds=115) < attempts.now - START <= timedelta(minutes=2)
    assert [record.message for record in caplog.records] == ["left to other workers"]
    assert min(attempts.delays) >= 0.75
    assert max(attempts.delays) <= 5.0


async def test_the_agent_that_a_run_in_flight_needs_is_looked_up_for_longer() -> None:
    """H-25."""
    error = await Attempts().make(Worker(OLD).resolve, ResolveInput(agent_id="new", in_flight=True))
    assert "until 2026-01-01 00:15:00 UTC" in error.message


async def test_time_without_any_worker_uses_up_no_patience() -> None:
    attempts, lookup, old = Attempts(), ResolveInput(agent_id="new"), Worker(OLD)
    await attempts.make(old.resolve, lookup)
    later = await attempts.make(old.resolve, lookup, queued=timedelta(hours=1))
    assert "until 2026-01-01 01:02:00 UTC" in later.message


async def test_patience_begins_anew_if_a_worker_had_it_meanwhile() -> None:
    attempts, lookup, old = Attempts(), ResolveInput(agent_id="new"), Worker(OLD)
    await attempts.make(old.resolve, lookup)
    attempts.attempt += 1  # an attempt on a worker that was lost
    attempts.now += timedelta(hours=1)
    assert "missing since 2026-01-01 01:00:00 UTC" in (await attempts.make(old.resolve, lookup)).message


@pytest.mark.parametrize(
    ("agent", "registry", "missing"),
    [
        ("new", OLD, "model 'own' needs provider 'own', which this worker does not have; known: none"),
        ("gated", OLD, "this worker has no gate 'careful'"),
        ("hooked", OLD, "this worker has no plugin 'watcher'"),
        ("hooked", OLD_PLUGIN, "this worker has no hook 'run_start' of plugin 'watcher'"),
    ],
)
async def test_an_inference_that_a_worker_cannot_finish_calls_no_model_there(
    agent: str, registry: Registry, missing: str
) -> None:
    """H-25."""
    attempts, input = Attempts(), infer_input(agent)
    for _ in range(8):  # more than the workers that may be lost in a row
        error = await attempts.make(Worker(registry).infer, input)
        assert (error.type, error.non_retryable) == (NOT_ON_THIS_WORKER, False)
        assert error.message.startswith(f"{missing} [missing since ")
    assert isinstance(await attempts.make(Worker(NEW).infer, input), ModelResponse)


async def test_an_inference_whose_provider_no_worker_has_fails_when_the_patience_is_over() -> None:
    error = await Attempts().make(Worker(OLD, timedelta(seconds=0.5)).infer, infer_input("new"))
    assert (error.type, error.non_retryable) == ("ProviderNotFound", True)
    assert error.message.endswith(
        "which this worker does not have; known: none; no worker had it within 0:00:00.500000"
    )


@pytest.mark.parametrize("agent", [None, "gated", "hooked"])
async def test_a_call_that_must_not_run_twice_runs_once_after_workers_without_its_tool_or_gates(
    agent: str | None,
) -> None:
    """H-25, I-04."""
    ran.clear()
    attempts, input = Attempts(retry_policy=ONCE), tool_input(NEW.resolve(agent) if agent else None)
    for _ in range(12):
        error = await attempts.make(Worker(OLD).call_tool, input)
        assert (error.type, error.non_retryable) == (NOT_ON_THIS_WORKER, False)
    outcome = await attempts.make(Worker(NEW).call_tool, input)
    assert (outcome.result.data, ran) == ("paid", ["pay"])


async def test_a_call_that_may_have_run_on_a_worker_that_stopped_is_not_made_again() -> None:
    """I-04."""
    ran.clear()
    attempts = Attempts(retry_policy=ONCE)
    await attempts.make(Worker(OLD).call_tool, tool_input())
    await attempts.make(Worker(NEW).call_tool, tool_input())
    error = await attempts.make(Worker(NEW).call_tool, tool_input())
    assert error.non_retryable
    assert error.message == "its worker was lost or stopped once before it reported a result"
    assert ran == ["pay"]


async def test_a_call_that_may_run_again_is_made_ten_times() -> None:
    attempts = Attempts(retry_policy=RetryPolicy())
    await attempts.make(Worker(OLD).call_tool, tool_input())
    for _ in range(10):
        assert isinstance(await attempts.make(Worker(NEW).call_tool, tool_input()), ToolOutcome)
    error = await attempts.make(Worker(NEW).call_tool, tool_input())
    assert error.message == "its worker was lost or stopped 10 times before it reported a result"


async def test_hooks_that_lose_their_worker_are_tried_three_times() -> None:
    """Attempts on workers without the hooks do not count."""
    digest = NEW.resolve("hooked").digest()
    input = HooksInput(agent=digest, phases=(LifecyclePhase.RUN_START,), identity=IDENTITY, step=0)
    attempts = Attempts()
    for _ in range(5):
        await attempts.make(Worker(OLD).run_hooks, input)
    for _ in range(3):
        assert isinstance(await attempts.make(Worker(NEW).run_hooks, input), HookEffects)
    error = await attempts.make(Worker(NEW).run_hooks, input)
    assert (error.type, error.non_retryable) == ("WorkersLost", True)
    assert error.message == "its worker was lost or stopped 3 times before it reported a result"


async def test_hooks_of_an_agent_that_cannot_be_read_fail_for_good_after_three_attempts() -> None:
    """B-028: the text of the error is in the detail, since no codec encodes messages, nor those of causes."""
    input = HooksInput(agent="unknown", phases=(LifecyclePhase.RUN_START,), identity=IDENTITY, step=0)
    attempts = Attempts()
    errors = [await attempts.make(Worker(NEW).run_hooks, input) for _ in range(3)]
    assert [error.non_retryable for error in errors] == [False, False, True]
    what = "the agent of the run could not be read"
    for error in errors:
        assert error.message == f"{what}; the detail of this failure has its text"
        assert (error_text(error.details) or "").startswith(f"{what}: 'NoneType' object has no attribute")
        assert error.__cause__ is None


async def test_a_lookup_that_loses_its_worker_is_made_ten_times() -> None:
    """Attempts on workers without the agent do not count."""
    attempts, lookup = Attempts(), ResolveInput(agent_id="new")
    for _ in range(12):
        await attempts.make(Worker(OLD).resolve, lookup)
    for _ in range(10):
        assert not isinstance(await attempts.make(Worker(NEW).resolve, lookup), ApplicationError)
    error = await attempts.make(Worker(NEW).resolve, lookup)
    assert error.message == "its worker was lost or stopped 10 times before it reported a result"


async def test_the_model_reads_that_no_worker_had_the_tool() -> None:
    outcome = await Attempts().make(Worker(OLD, timedelta(seconds=0.5)).call_tool, tool_input())
    assert outcome.result.message == (
        "The call was not executed: this worker has no tool 'pay'; no worker had it within 0:00:00.500000. "
        "Use another tool, or report the problem."
    )


async def test_a_run_does_not_wait_at_every_step_for_a_plugin_that_was_removed() -> None:
    attempts, old, input = Attempts(), Worker(OLD), infer_input("hooked")
    while isinstance(await attempts.make(old.infer, input), ApplicationError):
        pass
    assert timedelta(minutes=14, seconds=50) < attempts.now - START <= timedelta(minutes=15)
    assert isinstance(await Attempts(now=attempts.now).make(old.infer, input), ModelResponse)
    later = await Attempts(now=attempts.now + timedelta(hours=2)).make(old.infer, input)
    assert later.type == NOT_ON_THIS_WORKER


async def test_a_run_whose_patience_is_over_does_not_end_that_of_other_runs() -> None:
    """H-25. Else the first run that has waited in vain would fail every other run of a slow deploy."""
    attempts, old = Attempts(), Worker(OLD)
    while isinstance(await attempts.make(old.call_tool, tool_input()), ApplicationError):
        pass
    again = await Attempts(now=attempts.now).make(old.call_tool, tool_input())
    assert again.result.message.startswith("The call was not executed: this worker has no tool 'pay'. ")
    other = await Attempts(workflow_id="other", now=attempts.now).make(old.call_tool, tool_input())
    assert "other workers are tried until 2026-01-01 00:29:5" in other.message


async def test_a_worker_remembers_only_so_much_of_what_was_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_workers, "REMEMBERED_GONE", 2)
    old = Worker(OLD, timedelta(seconds=0.5))
    for workflow_id in ("t1", "t2", "t3"):
        await Attempts(workflow_id=workflow_id).make(old.call_tool, tool_input())
    messages = []
    for workflow_id in ("t3", "t2", "t1"):
        outcome = await Attempts(workflow_id=workflow_id).make(old.call_tool, tool_input())
        messages.append("no worker had it" in outcome.result.message)
    assert messages == [False, False, True]


async def test_the_last_attempt_that_a_policy_allows_says_what_is_missing() -> None:
    """A tool with a task queue of its own has one attempt, because its worker may be anyone's."""
    outcome = await Attempts(retry_policy=RetryPolicy(maximum_attempts=1)).make(Worker(OLD).call_tool, tool_input())
    assert outcome.result.message.startswith("The call was not executed: this worker has no tool 'pay'. ")


async def test_an_activity_of_a_newer_release_is_left_to_its_workers() -> None:
    error = await Attempts().make(Worker(OLD).call_tool, raw(cast("ToolCallInput", {"not": "a call"})))
    assert error.type == NOT_ON_THIS_WORKER


async def test_hooks_that_a_worker_lacks_are_left_to_others() -> None:
    """H-25. A local activity cannot reach another worker: it fails, and the workflow schedules a regular one."""
    input = HooksInput(
        agent=NEW.resolve("hooked").digest(), phases=(LifecyclePhase.RUN_START,), identity=IDENTITY, step=0
    )
    error = await Attempts(is_local=True).make(Worker(OLD).run_hooks, input)
    assert (error.type, error.non_retryable) == (NOT_ON_THIS_WORKER, True)
    attempts = Attempts()
    error = await attempts.make(Worker(OLD).run_hooks, input)
    assert (error.type, error.non_retryable) == (NOT_ON_THIS_WORKER, False)
    await attempts.make(Worker(NEW).run_hooks, input)
