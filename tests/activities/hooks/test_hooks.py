"""Hooks of plugins in the three activities that run them, and the state of tools."""

import asyncio
import copy
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from pydantic import BaseModel
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import ActivityEnvironment

from wakeful import (
    AfterInference,
    AfterToolExecute,
    Agent,
    BeforeInference,
    BeforeToolExecute,
    Behavior,
    GateCall,
    HookContext,
    InferenceOverrides,
    ModelRequest,
    ModelResponse,
    Plugin,
    Registry,
    Rule,
    RunEnd,
    RunResult,
    ScriptedModel,
    StateKey,
    StepEnd,
    ToolContext,
    ToolGate,
    Verdict,
    call,
    gate,
    say,
    tool,
)
from wakeful.authoring.plugin import AnyPlugin
from wakeful.authoring.scripted import Turn
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import ContextMessage, ContextPolicy, ContextTarget
from wakeful.contract.decisions import DecisionAction, ToolCallResume
from wakeful.contract.gates import Block
from wakeful.contract.hooks import EmittedEvent, HookEffects, HookFailure, HooksInput, LifecyclePhase
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall
from wakeful.contract.runs import NaturalEnd, RunIdentity, StopDetail
from wakeful.contract.state import StateAction, StateOp, StateView
from wakeful.contract.tools import ToolCallInput, ToolOutcome, ToolResult
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.registry.plugin_bindings import CONTEXT_THROTTLE
from wakeful.registry.plugin_lifecycles import PluginLifecycles
from wakeful_activities import HistoryCache, InferActivity, ToolActivity
from wakeful_activities.hooks.hook_run import HooksActivity
from wakeful_activities.results import RESULT_LIMIT

IDENTITY = RunIdentity(thread_id="test", run_id="r", agent_id="a")
RESUMED = ToolCallResume(action=DecisionAction.RESUME)
VISITS = StateKey("visits", int, merge="add", default=0)
ASKED = Message(id="1", role=Role.USER, content=(TextBlock(text="go"),))


class Recorded(ScriptedModel):
    """Keeps what it was asked."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(turns)
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        return await super().complete(request)


@tool
def pay(amount: int, ctx: ToolContext) -> str:
    """Pay."""
    ctx.state.add(VISITS, amount)
    if amount > 100:
        raise ValueError("too much")
    if amount > 10 and ctx.resume_input is None:
        ctx.suspend("sure?")
    return f"paid {amount} of {ctx.state.get(VISITS)}"


@tool(read_only=True)
def look(where: str) -> str:
    """Look."""
    return where


class World:
    """An agent with plugins, and the activities that run for it."""

    def __init__(self, *plugins: AnyPlugin, turn: Turn | None = None, **changes: Any) -> None:
        self.model = Recorded([turn or say("hello")])
        agent = Agent(id="a", model="m", tools=[pay, look], plugins=plugins, state=[VISITS], **changes)
        self.registry = Registry(agents=[agent], models={"m": self.model})
        self.bind(self.registry.resolve("a"))

    def bind(self, agent: ResolvedAgent) -> None:
        self.agent = agent
        self.memory = HistoryCache(cast("Client", None))  # it remembers the agent, and so never reads history
        self.memory.remember_agent(agent)

    async def infer(self, **changes: Any) -> ModelResponse:
        input = InferInput(
            agent=self.agent.digest(),
            transcript=TranscriptRef(length=1, digest=chained(EMPTY_DIGEST, ASKED)),
            appended=(ASKED,),
            identity=IDENTITY,
            step=1,
            state=StateView(revision=4),
        ).model_copy(update=changes)
        return await _environment().run(InferActivity(self.registry, self.memory, {}).infer, input)

    async def call_tool(self, name: str, **changes: Any) -> ToolOutcome:
        arguments = changes.pop("arguments", {"amount": 5} if name == "pay" else {"where": "up"})
        input = ToolCallInput(
            call=ToolCall(id="c", name=name, arguments=arguments),
            identity=IDENTITY,
            idempotency_key="k",
            agent=self.agent.digest(),
            step=1,
            state=StateView(revision=4, values={"visits": 1}),
        ).model_copy(update=changes)
        (payload,) = pydantic_data_converter.payload_converter.to_payloads([input])
        with ThreadPoolExecutor(1) as threads:
            execution = ToolActivity(self.registry, self.memory, threads)
            return await _environment().run(execution.call_tool, [RawValue(payload)])

    async def moments(self, *moments: LifecyclePhase, **changes: Any) -> HookEffects:
        input = HooksInput(
            agent=self.agent.digest(), moments=moments, identity=IDENTITY, step=3, state=StateView(revision=4)
        ).model_copy(update=changes)
        return await _environment().run(HooksActivity(self.registry, self.memory).run_hooks, input)

    @property
    def request(self) -> ModelRequest:
        (request,) = self.model.requests
        return request


def _environment() -> ActivityEnvironment:
    made = ActivityEnvironment()
    made.payload_converter = pydantic_data_converter.payload_converter
    return made


def adding(value: int) -> StateOp:
    return StateOp(key="visits", action=StateAction.MERGE, value=value)


def plugin(id: str, *, on_error: str = "skip", timeout: float = 5.0, **hooks: Any) -> AnyPlugin:
    """A plugin with these functions for hooks."""
    methods = {name: _method(function) for name, function in hooks.items()}
    return cast("AnyPlugin", type(id, (Plugin,), {"id": id, "on_error": on_error, "timeout": timeout, **methods})())


def _method(function: Any) -> Any:
    async def later(_self: object, ctx: Any) -> Any:
        return await function(ctx)

    return later if asyncio.iscoroutinefunction(function) else lambda _self, ctx: function(ctx)


class Manners(BaseModel):
    text: str = "be kind"


class Manner(Plugin[Manners]):
    id = "manner"

    async def before_inference(self, ctx: BeforeInference[Manners]) -> None:
        ctx.add_context("manner", ctx.settings.text)
        ctx.settings.text = "spoilt"


async def test_an_agent_without_hooks_is_not_touched() -> None:
    world = World(plugin("idle", run_start=lambda _ctx: None))
    response = await world.infer()
    assert (response.text, response.effects) == ("hello", None)
    assert "effects" not in response.model_dump_json()


async def test_what_hooks_tell_the_model_is_told_with_this_request_and_no_other() -> None:
    """B-070, B-481."""
    world = World(Manner(), plugin_settings={"manner": {"text": "be brief"}})
    for _ in range(2):
        assert (await world.infer()).effects is None
    assert [[message.text for message in request.messages] for request in world.model.requests] == [
        ["be brief", "go"],
        ["be brief", "go"],
    ]


async def test_what_stays_to_be_told_is_told_now_and_kept_and_what_is_forgotten_is_not_shown() -> None:
    def before(ctx: BeforeInference) -> None:
        ctx.add_context("kept", "stay", persistent=True, target=ContextTarget.SUFFIX_SYSTEM)
        ctx.remove_context("old")

    world = World(plugin("p", before_inference=before))
    old = ContextMessage(key="old", content=(TextBlock(text="old"),))
    response = await world.infer(context=(old, replaced := old.model_copy(update={"key": "kept"})))
    assert [message.text for message in world.request.messages] == ["go", "stay"]
    kept = replaced.model_copy(
        update={"content": (TextBlock(text="stay"),), "persistent": True, "target": ContextTarget.SUFFIX_SYSTEM}
    )
    assert response.effects == HookEffects(base=4, context=(kept,), forget=("old",))


async def test_a_cooldown_holds_for_what_hooks_tell_in_every_step() -> None:
    """B-483."""
    world = World(plugin("p", step_start=lambda ctx: ctx.add_context("k", "hush", cooldown_turns=2)))
    values: dict[str, Any] = {}
    for step in (1, 2, 3):
        response = await world.infer(step=step, state=StateView(revision=step, values=values))
        for operation in response.effects.state if response.effects else ():
            assert operation.key == CONTEXT_THROTTLE.key
            values[operation.key] = operation.value
    assert [[message.text for message in request.messages] for request in world.model.requests] == [
        ["hush", "go"],
        ["go"],
        ["hush", "go"],
    ]


async def test_hooks_shape_the_request_and_the_next_one_sees_what_the_one_before_made() -> None:
    """B-071, B-072, B-073."""

    def first(ctx: BeforeInference) -> None:
        ctx.override(InferenceOverrides(temperature=0.1, max_tokens=7))
        ctx.include_only_tools("look", "pay")
        (message,) = ctx.messages
        ctx.rewrite_messages((message.model_copy(update={"content": (TextBlock(text=f"{message.text}!"),)}),))

    async def second(ctx: BeforeInference) -> None:
        ctx.override(InferenceOverrides(temperature=0.9, upstream_model="other"))
        ctx.exclude_tools("pay")
        ctx.rewrite_messages((ctx.messages[0], ctx.messages[0]))

    for context in (None, ContextPolicy()):
        world = World(plugin("p", before_inference=first), plugin("q", before_inference=second), context=context)
        response = await world.infer(overrides=InferenceOverrides(temperature=0.5, top_p=0.5))
        request = world.request
        assert (request.model, request.settings.model_dump()) == (
            "other",
            {"temperature": 0.9, "max_tokens": 7, "top_p": 0.5},
        )
        assert [tool.id for tool in request.tools] == ["look"]
        assert [message.text for message in request.messages] == ["go!", "go!"]
        assert (response.effects, (response.context is None) == (context is None)) == (None, True)


async def test_each_hook_sees_what_those_before_it_wrote() -> None:
    seen: list[int] = []

    def count(ctx: HookContext) -> None:
        seen.append(ctx.state.get(VISITS))
        ctx.state.add(VISITS, 1)

    world = World(plugin("p", step_start=count, after_inference=count), plugin("q", step_start=count))
    response = await world.infer(state=StateView(revision=9, values={"visits": 5}))
    assert seen == [5, 6, 7]
    assert response.effects == HookEffects(base=9, state=(adding(1), adding(1), adding(1)))


@pytest.mark.parametrize("phase", ["step_start", "before_inference"])
async def test_a_run_that_is_to_end_does_not_ask_the_model(phase: str) -> None:
    later: list[str] = []
    noted = plugin("q", before_inference=lambda _ctx: later.append("asked"))
    stops: dict[str, Any] = {phase: lambda ctx: ctx.stop("enough", "of it")}
    world = World(plugin("p", **stops), noted)
    response = await world.infer()
    effects = HookEffects(base=4, stop=StopDetail(code="enough", detail="of it"))
    assert response == ModelResponse(model="m", effects=effects, skipped=True)
    assert (world.model.requests, later) == ([], ["asked"] if phase == "before_inference" else [])


async def test_an_answer_is_rewritten_before_it_is_checked_and_recorded() -> None:
    def first(ctx: AfterInference) -> None:
        ctx.rewrite(ctx.response.text.replace("five", "5"))

    def second(ctx: AfterInference) -> None:
        ctx.emit("heard", ctx.response.text)
        ctx.add_context("next", "go on")

    world = World(plugin("p", after_inference=first), plugin("q", after_inference=second), turn=say("five"), output=int)
    response = await world.infer()
    assert (response.text, response.output, response.output_problem) == ("5", 5, None)
    assert response.effects == HookEffects(
        base=4,
        context=(ContextMessage(key="next", content=(TextBlock(text="go on"),)),),
        events=(EmittedEvent(plugin="q", name="heard", payload="5"),),
    )


async def test_an_answer_that_is_not_taken_is_not_judged() -> None:
    asked: list[str] = []
    world = World(
        plugin("p", after_inference=lambda ctx: ctx.retry("be polite"), tool_gate=lambda _ctx: asked.append("gate")),
        plugin("q", after_inference=lambda ctx: ctx.retry("be brief")),
        turn=call("pay", amount=1),
    )
    response = await world.infer()
    assert response.effects == HookEffects(base=4, retry="be polite")
    assert (asked, response.verdicts) == ([], {})


async def test_plugins_speak_of_calls_after_gates_and_block_before_they_suspend() -> None:
    """B-230."""
    asked: list[tuple[str, str]] = []

    def judge(ctx: ToolGate) -> None:
        asked.append((ctx.plugin_id, ctx.call.name))
        if ctx.plugin_id == "p":
            ctx.set_result("never mind")
        elif ctx.arguments == {"amount": 2}:
            ctx.block("no")
        else:
            ctx.suspend("sure?")

    @gate
    def modest(call: GateCall) -> Verdict | None:
        return call.block("gate") if call.arguments == {"amount": 3} else None

    turn = call("pay", amount=1) & call("pay", amount=2) & call("pay", amount=3)
    world = World(plugin("p", tool_gate=judge), plugin("q", tool_gate=judge), turn=turn, gates=[modest])
    response = await world.infer()
    assert [said.verdict for said in response.verdicts.values()] == ["suspend", "block", "block"]
    assert asked == [("p", "pay"), ("q", "pay"), ("p", "pay"), ("q", "pay")]
    assert response.effects is None


async def test_what_a_hook_permits_holds_at_once() -> None:
    denied = Rule(tool="pay", behavior=Behavior.DENY)
    world = World(plugin("p", step_start=lambda ctx: ctx.add_permissions(denied)), turn=call("pay", amount=1))
    response = await world.infer()
    assert [tool.id for tool in world.request.tools] == ["look"]
    assert [said.verdict for said in response.verdicts.values()] == ["block"]
    assert response.effects == HookEffects(base=4, permissions=(denied,))


def fails(ctx: HookContext) -> None:
    ctx.state.add(VISITS, 100)
    ctx.stop("never")
    raise RuntimeError("oh no")


def takes_long(ctx: HookContext) -> None:
    ctx.stop("never")
    time.sleep(0.3)


async def hangs(ctx: HookContext) -> None:
    ctx.block("never")
    await asyncio.sleep(60)


async def cancels_itself(ctx: HookContext) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        (fails, "RuntimeError: oh no"),
        (hangs, "it took longer than 0.05 s"),
        (takes_long, "it took longer than 0.05 s"),
        (cancels_itself, "it cancelled itself"),
        (lambda ctx: ctx.messages, "it returned a tuple; hooks return nothing, they ask by the context's verbs"),
        (lambda ctx: ctx.state.set(VISITS, 1), "ValueError: state key 'visits' has merge='add': write it with "
         "state.add(), not state.set()"),
        (lambda _ctx: next(iter(())), "RuntimeError: StopIteration: next() found nothing"),
    ],
)  # fmt: skip
async def test_a_hook_that_fails_is_passed_over_and_reported_or_fails_the_run(hook: Any, error: str) -> None:
    after = plugin("q", step_start=lambda ctx: ctx.state.add(VISITS, 1))
    world = World(plugin("p", timeout=0.05, step_start=hook), after)
    response = await world.infer()
    report = HookFailure(plugin="p", phase="step_start", error=error)
    assert (response.text, response.effects) == ("hello", HookEffects(base=4, state=(adding(1),), reports=(report,)))

    world = World(plugin("p", timeout=0.05, on_error="fail", step_start=hook), after)
    response = await world.infer()
    failed = HookEffects(base=4, fail=f"plugin 'p' failed at step_start: {error}")
    assert response == ModelResponse(model="m", effects=failed, skipped=True)


JUNK: Any = 5
HALF = "\ud800"


@pytest.mark.parametrize(
    ("phase", "hook"),
    [
        ("step_start", lambda ctx: ctx.handoff(JUNK)),
        ("step_start", lambda ctx: ctx.block(ValueError())),
        ("step_start", lambda ctx: ctx.exclude_tools(JUNK)),
        ("step_start", lambda ctx: ctx.stop(HALF)),
        ("step_start", lambda ctx: ctx.emit("said", {"text": HALF})),
        ("step_start", lambda ctx: ctx.add_context("key", HALF)),
        ("before_inference", lambda ctx: ctx.rewrite_messages(("junk",))),
        ("before_inference", lambda ctx: ctx.rewrite_messages((Message.model_construct(id=JUNK),))),
        ("after_inference", lambda ctx: ctx.rewrite(JUNK)),
        ("after_inference", lambda ctx: ctx.rewrite(HALF)),
        ("after_inference", lambda ctx: ctx.retry(JUNK)),
    ],
)
async def test_a_hook_that_asks_for_nonsense_has_failed(
    phase: str, hook: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="temporalio.activity")
    response = await World(plugin("p", **{phase: hook})).infer()
    assert response.effects is not None
    (report,) = response.effects.reports
    assert (response.text, report.phase) == ("hello", phase)
    assert response.effects == HookEffects(base=4, reports=(report,))
    response = await World(plugin("p", on_error="fail", **{phase: hook})).infer()
    assert response.effects is not None
    assert (response.effects.fail or "").startswith(f"plugin 'p' failed at {phase}: ")
    response.model_dump_json()


async def test_a_failure_that_history_cannot_hold_is_told_as_far_as_it_can(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="temporalio.activity")  # a report of the test could not hold it either

    def fail(_ctx: HookContext) -> None:
        raise ValueError(HALF + "x" * 10_000)

    response = await World(plugin("p", step_start=fail)).infer()
    assert response.effects is not None
    assert len(response.model_dump_json()) < 5_000
    assert response.effects.reports[0].error.startswith("ValueError: ?xxx")


async def test_a_hook_that_asks_for_too_much_has_failed() -> None:
    def emit(much: int) -> Any:
        return lambda ctx: [ctx.emit("e", "x" * 20_000) for _ in range(much)] and None

    effects = await World(plugin("p", run_start=emit(7))).moments(LifecyclePhase.RUN_START)
    assert effects.events == ()
    assert effects.reports[0].error.startswith("it asked for too much: 140,")

    effects = await World(*(plugin(f"p{n}", run_start=emit(6)) for n in range(5))).moments(LifecyclePhase.RUN_START)
    assert len(effects.events) == 24
    assert [(report.plugin, report.error) for report in effects.reports] == [
        ("p4", "it asked for too much: with the hooks before it, more than 512,000 bytes")
    ]


async def test_what_a_hook_does_to_what_it_is_shown_stays_with_it() -> None:
    def spoil(ctx: BeforeInference) -> None:
        ctx.messages[0].tool_calls[0].arguments["where"] = "spoilt"  # type: ignore[index, call-overload]  # it is JSON
        ctx.agent.tools[0].parameters.clear()
        ctx.agent.plugins[0].settings["x"] = 1

    def spoil_tool(ctx: ToolGate) -> None:
        assert ctx.tool is not None
        ctx.tool.parameters.clear()

    world = World(plugin("p", before_inference=spoil, tool_gate=spoil_tool, before_tool_execute=spoil_tool))
    digest = world.agent.digest()
    calling = Message(
        id="1", role=Role.ASSISTANT, tool_calls=(ToolCall(id="c", name="look", arguments={"where": "up"}),)
    )
    answered = Message(id="2", role=Role.TOOL, content=(TextBlock(text="up"),), tool_call_id="c")
    reference = TranscriptRef(length=2, digest=chained(chained(EMPTY_DIGEST, calling), answered))
    response = await world.infer(transcript=reference, appended=(calling, answered))
    assert response.effects is None
    assert world.request.messages[0].tool_calls[0].arguments == {"where": "up"}
    assert (await world.call_tool("look")).effects is None
    assert world.agent.digest() == digest


async def test_a_run_fails_without_a_plugin_that_it_cannot_do_without() -> None:
    world = World(plugin("p", on_error="fail", step_start=lambda _ctx: None))
    (bound,) = world.agent.plugins
    assert bound.on_error == "fail"
    world.registry = Registry(agents=[Agent(id="a", model="m")], models={"m": world.model})
    response = await world.infer()
    failed = "plugin 'p' failed at step_start: it is not on this worker; is its registry up to date?"
    assert response == ModelResponse(model="m", effects=HookEffects(base=4, fail=failed), skipped=True)


async def test_a_plugin_that_comes_later_is_set_up_once_before_its_first_hook() -> None:
    done: list[str] = []

    class Late(Plugin):
        id = "late"

        async def setup(self) -> None:
            await asyncio.sleep(0)
            done.append("setup")

        async def shutdown(self) -> None:
            done.append("shutdown")

        def run_start(self, ctx: HookContext) -> None:
            done.append("run_start")

    world = World(Late())
    lifecycles = PluginLifecycles()
    moments = HooksActivity(world.registry, world.memory, lifecycles=lifecycles)
    input = HooksInput(agent=world.agent.digest(), moments=(LifecyclePhase.RUN_START,), identity=IDENTITY)
    async with lifecycles.running([]):
        await asyncio.gather(*(_environment().run(moments.run_hooks, input) for _ in range(2)))
    assert done == ["setup", "run_start", "run_start", "shutdown"]


async def test_a_plugin_that_is_gone_or_changed_is_passed_over() -> None:
    world = World(Manner())
    (bound,) = world.agent.plugins
    gone, changed = bound.model_copy(update={"id": "gone"}), bound.model_copy(update={"settings": {"text": 5}})
    world.bind(world.agent.model_copy(update={"plugins": (gone, changed)}))
    effects = (await world.infer()).effects
    assert effects is not None
    first, second = effects.reports
    assert (first.plugin, first.error) == ("gone", "it is not on this worker; is its registry up to date?")
    assert second.error.startswith("the settings that the run is bound to do not fit any more")


async def test_sync_hooks_run_in_threads_of_their_own() -> None:
    names: list[str] = []
    await World(plugin("p", step_start=lambda _ctx: names.append(threading.current_thread().name))).infer()
    assert names[0].startswith("wakeful-hook")


async def test_a_tool_writes_state_and_reads_back_what_it_wrote() -> None:
    outcome = await World().call_tool("pay")
    assert outcome == ToolOutcome(
        result=ToolResult.success("pay", "paid 5 of 6"), effects=HookEffects(base=4, state=(adding(5),))
    )


async def test_a_tool_that_raises_or_suspends_has_written_nothing() -> None:
    for amount, status in ((500, "error"), (50, "pending")):
        outcome = await World().call_tool("pay", arguments={"amount": amount})
        assert (outcome.result.status, outcome.effects) == (status, None)
    outcome = await World().call_tool("pay", arguments={"amount": 50}, resume=RESUMED)
    assert outcome.effects == HookEffects(base=4, state=(adding(50),))


async def test_a_tool_of_an_agent_without_state_is_told_so() -> None:
    outcome = await World().call_tool("pay", agent=None)
    assert "agent 'a' does not declare state key 'visits'" in outcome.result.text


async def test_hooks_around_a_call_run_in_order_and_share_its_state() -> None:
    """B-237."""
    seen: list[Any] = []

    def note(ctx: ToolGate | BeforeToolExecute | AfterToolExecute) -> None:
        arguments = copy.copy(ctx.call.arguments)
        seen.append((type(ctx).__name__, ctx.state.get(VISITS), arguments, ctx.tool and ctx.tool.id))
        ctx.state.add(VISITS, 1)
        if isinstance(ctx.call.arguments, dict):
            ctx.call.arguments["amount"] = 99  # its own copy

    world = World(plugin("p", tool_gate=note, before_tool_execute=note, after_tool_execute=note))
    outcome = await world.call_tool("pay")
    five = {"amount": 5}
    assert seen == [
        ("ToolGate", 1, five, "pay"),
        ("BeforeToolExecute", 2, five, "pay"),
        ("AfterToolExecute", 8, five, "pay"),
    ]
    assert outcome.result.data == "paid 5 of 8"
    assert outcome.effects is not None
    assert outcome.effects.state == (adding(1), adding(1), adding(5), adding(1))


async def test_a_result_that_is_there_already_skips_the_tool_and_may_be_replaced_afterwards() -> None:
    """B-234."""
    later: list[str] = []
    world = World(
        plugin("p", before_tool_execute=lambda ctx: ctx.set_result("cached")),
        plugin("q", before_tool_execute=lambda _ctx: later.append("asked")),
        plugin("r", after_tool_execute=lambda ctx: ctx.set_result(f"{ctx.result.data}!")),
        plugin("s", after_tool_execute=lambda ctx: ctx.set_result(f"{ctx.result.data}?")),
    )
    outcome = await world.call_tool("pay")
    assert (outcome, later) == (ToolOutcome(result=ToolResult.success("pay", "cached!?")), [])
    world = World(plugin("p", after_tool_execute=lambda ctx: ctx.set_result("x" * (RESULT_LIMIT + 1))))
    assert "[cut: the result has" in (await world.call_tool("look")).result.text


async def test_a_call_is_gated_again_and_suspended_until_somebody_decided() -> None:
    """B-231, B-233."""
    asked: list[bool] = []

    def ask(ctx: ToolGate) -> None:
        asked.append(ctx.is_first_check)
        if not ctx.approved:
            ctx.suspend("sure?")

    after = plugin("q", after_tool_execute=lambda ctx: ctx.emit("done"))
    world = World(plugin("p", tool_gate=ask), after)
    outcome = await world.call_tool("look")
    assert (outcome.result.status, outcome.gated, outcome.effects) == ("pending", True, None)
    outcome = await world.call_tool("look", resume=RESUMED)
    assert outcome == ToolOutcome(
        result=ToolResult.success("look", "up"),
        effects=HookEffects(base=4, events=(EmittedEvent(plugin="q", name="done"),)),
    )
    assert asked == [False, False]


@pytest.mark.parametrize("phase", ["tool_gate", "before_tool_execute"])
async def test_a_call_is_not_made_when_a_hook_ends_the_run(phase: str) -> None:
    """B-232."""
    blocks: dict[str, Any] = {phase: lambda ctx: ctx.block("no")}
    stops: dict[str, Any] = {phase: lambda ctx: ctx.stop("enough")}
    failing: dict[str, Any] = {phase: fails}
    blocked = await World(plugin("p", **blocks)).call_tool("pay")
    assert blocked == ToolOutcome(result=ToolResult.error("pay", "no"), blocked="no")
    stopped = await World(plugin("p", **stops)).call_tool("pay")
    message = "the call was not made, because the run ends: enough"
    effects = HookEffects(base=4, stop=StopDetail(code="enough"))
    assert stopped == ToolOutcome(result=ToolResult.error("pay", message), effects=effects)
    failed = await World(plugin("p", on_error="fail", **failing)).call_tool("pay")
    why = f"plugin 'p' failed at {phase}: RuntimeError: oh no"
    message = f"the call was not made, because the run ends: {why}"
    assert failed == ToolOutcome(result=ToolResult.error("pay", message), effects=HookEffects(base=4, fail=why))
    skipped = await World(plugin("p", **failing)).call_tool("pay")
    if phase == "before_tool_execute":
        assert skipped.result.data == "paid 5 of 6"
    else:
        report = HookFailure(plugin="p", phase=phase, error="RuntimeError: oh no")
        effects = HookEffects(base=4, reports=(report,))
        assert skipped == ToolOutcome(result=ToolResult.error("pay", why), blocked=why, effects=effects)


@pytest.mark.parametrize("hook", [fails, hangs])
async def test_a_gate_that_fails_lets_no_call_pass(hook: Any) -> None:
    asked: list[str] = []
    after = plugin("q", tool_gate=lambda _ctx: asked.append("gate"))
    world = World(plugin("p", timeout=0.05, tool_gate=hook), after, turn=call("pay", amount=1))
    response = await world.infer()
    (verdict,) = response.verdicts.values()
    assert isinstance(verdict, Block)
    assert verdict.reason.startswith("plugin 'p' failed at tool_gate: ")
    assert response.effects is not None
    assert [(report.plugin, report.phase) for report in response.effects.reports] == [("p", "tool_gate")]
    assert asked == []


async def test_moments_have_an_activity_of_their_own() -> None:
    def note(ctx: HookContext) -> None:
        ctx.emit(type(ctx).__name__, ctx.step)
        ctx.state.add(VISITS, 1)

    world = World(plugin("p", on_activate=note, run_start=note, on_deactivate=note), plugin("q", run_start=note))
    effects = await world.moments(LifecyclePhase.ACTIVATE, LifecyclePhase.RUN_START)
    assert effects == HookEffects(
        base=4,
        state=(adding(1), adding(1), adding(1)),
        events=tuple(EmittedEvent(plugin=id, name="HookContext", payload=3) for id in "ppq"),
    )
    assert await world.moments(LifecyclePhase.STEP_END) == HookEffects(base=4)


async def test_the_last_hooks_read_the_answer_and_the_result() -> None:
    result = RunResult(
        thread_id="test", run_id="r", agent_id="a", status_reason="natural", termination=NaturalEnd(), response="bye"
    )

    def step_end(ctx: StepEnd) -> None:
        ctx.emit("step", ctx.response)

    async def run_end(ctx: RunEnd) -> None:
        ctx.emit("run", ctx.result.response)

    world = World(plugin("p", step_end=step_end, run_end=run_end, on_deactivate=fails))
    effects = await world.moments(
        LifecyclePhase.STEP_END, LifecyclePhase.RUN_END, LifecyclePhase.DEACTIVATE, response="hi", result=result
    )
    assert effects == HookEffects(
        base=4,
        events=(
            EmittedEvent(plugin="p", name="step", payload="hi"),
            EmittedEvent(plugin="p", name="run", payload="bye"),
        ),
        reports=(HookFailure(plugin="p", phase="deactivate", error="RuntimeError: oh no"),),
    )
