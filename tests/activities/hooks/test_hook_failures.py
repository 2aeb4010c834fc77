"""A hook that fails changes nothing: it is skipped and reported, or fails the run, but never the activity."""

import asyncio
import logging
import sys
import threading
import time
from typing import Any

import pytest

from tests.activities.hooks.world import VISITS, Manner, World, adding, fails, hangs, plugin
from wakeful import (
    Agent,
    BeforeInference,
    HookContext,
    ModelResponse,
    Registry,
    ToolGate,
    call,
)
from wakeful.contract.gates import Block
from wakeful.contract.hooks import HookEffects, HookFailure, LifecyclePhase
from wakeful.contract.inference import TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock, ToolCall
from wakeful.contract.transcript import EMPTY_DIGEST, chained


def takes_long(ctx: HookContext) -> None:
    ctx.stop("never")
    time.sleep(1.5)


async def cancels_itself(ctx: HookContext) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        (fails, "RuntimeError: oh no"),
        (hangs, "it took longer than 1 s"),
        (takes_long, "it took longer than 1 s"),
        (lambda _ctx: sys.exit(3), "RuntimeError: SystemExit: it called sys.exit(3)"),
        (cancels_itself, "RuntimeError: CancelledError: it cancelled itself"),
        (lambda ctx: ctx.messages, "it returned a tuple; a hook must return None and call methods of its context"),
        (lambda ctx: ctx.state.set(VISITS, 1), "ValueError: state key 'visits' has merge='add': write it with "
         "state.add(), not state.set()"),
        (lambda _ctx: next(iter(())), "RuntimeError: StopIteration: next() found nothing"),
    ],
)  # fmt: skip
async def test_a_hook_that_fails_is_skipped_and_reported_or_fails_the_run(hook: Any, error: str) -> None:
    after = plugin("q", step_start=lambda ctx: ctx.state.add(VISITS, 1))
    world = World(plugin("p", timeout=1, step_start=hook), after)
    response = await world.infer()
    report = HookFailure(plugin="p", phase="step_start", error=error)
    assert (response.text, response.effects) == ("hello", HookEffects(base=4, state=(adding(1),), failures=(report,)))

    world = World(plugin("p", timeout=1, on_error="fail", step_start=hook), after)
    response = await world.infer()
    failed = HookEffects(base=4, fail=f"plugin 'p' failed at step_start: {error}")
    assert response == ModelResponse(model="m", effects=failed, skipped=True)


JUNK: Any = 5
HALF = "\ud800"


@pytest.mark.parametrize(
    ("phase", "hook"),
    [
        ("step_start", lambda ctx: ctx.hand_off(JUNK)),
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
async def test_a_hook_with_an_invalid_request_has_failed(
    phase: str, hook: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="wakeful")
    response = await World(plugin("p", **{phase: hook})).infer()
    assert response.effects is not None
    (report,) = response.effects.failures
    assert (response.text, report.phase) == ("hello", phase)
    assert response.effects == HookEffects(base=4, failures=(report,))
    response = await World(plugin("p", on_error="fail", **{phase: hook})).infer()
    assert response.effects is not None
    assert (response.effects.fail or "").startswith(f"plugin 'p' failed at {phase}: ")
    response.model_dump_json()


async def test_a_reason_that_history_cannot_hold_is_shortened_and_made_valid(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="wakeful")  # a report of the test could not hold it either

    def fail(_ctx: HookContext) -> None:
        raise ValueError(HALF + "x" * 10_000)

    response = await World(plugin("p", step_start=fail)).infer()
    assert response.effects is not None
    assert len(response.model_dump_json()) < 5_000
    assert response.effects.failures[0].error.startswith("ValueError: ?xxx")


async def test_a_hook_with_a_request_that_is_too_large_has_failed() -> None:
    def emit(much: int) -> Any:
        return lambda ctx: [ctx.emit("e", "x" * 20_000) for _ in range(much)] and None

    effects = await World(plugin("p", run_start=emit(7))).run_hooks(LifecyclePhase.RUN_START)
    assert effects.events == ()
    assert effects.failures[0].error.startswith("its request is too large: 140,")

    effects = await World(*(plugin(f"p{n}", run_start=emit(6)) for n in range(5))).run_hooks(LifecyclePhase.RUN_START)
    assert len(effects.events) == 24
    assert [(report.plugin, report.error) for report in effects.failures] == [
        ("p4", "its request is too large: more than 512,000 bytes with those of the hooks before it")
    ]


async def test_a_hook_that_changes_its_arguments_changes_nothing_else() -> None:
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


async def test_a_run_fails_if_a_plugin_with_on_error_fail_is_not_registered() -> None:
    world = World(plugin("p", on_error="fail", step_start=lambda _ctx: None))
    (bound,) = world.agent.plugins
    assert bound.on_error == "fail"
    world.registry = Registry(agents=[Agent(id="a", model="m")], models={"m": world.model})
    response = await world.infer()
    failed = "plugin 'p' failed at step_start: it is not in this worker's registry; is the registry up to date?"
    assert response == ModelResponse(model="m", effects=HookEffects(base=4, fail=failed), skipped=True)


async def test_a_plugin_that_is_not_registered_any_more_or_has_other_settings_is_skipped() -> None:
    world = World(Manner())
    (bound,) = world.agent.plugins
    gone, changed = bound.model_copy(update={"id": "gone"}), bound.model_copy(update={"settings": {"text": 5}})
    world.bind(world.agent.model_copy(update={"plugins": (gone, changed)}))
    effects = (await world.infer()).effects
    assert effects is not None
    first, second = effects.failures
    assert (first.plugin, first.error) == ("gone", "it is not in this worker's registry; is the registry up to date?")
    assert second.error.startswith("the settings that the run is bound to are no longer valid")


async def test_sync_hooks_run_in_threads_of_their_own() -> None:
    names: list[str] = []
    await World(plugin("p", step_start=lambda _ctx: names.append(threading.current_thread().name))).infer()
    assert names[0].startswith("wakeful-hook")


@pytest.mark.parametrize("hook", [fails, hangs])
async def test_a_tool_gate_hook_that_fails_blocks_the_call(hook: Any) -> None:
    evaluated: list[str] = []
    after = plugin("q", tool_gate=lambda _ctx: evaluated.append("gate"))
    world = World(plugin("p", timeout=1, tool_gate=hook), after, turn=call("pay", amount=1))
    response = await world.infer()
    (verdict,) = response.verdicts.values()
    assert isinstance(verdict, Block)
    assert verdict.reason.startswith("plugin 'p' failed at tool_gate: ")
    assert response.effects is not None
    assert [(report.plugin, report.phase) for report in response.effects.failures] == [("p", "tool_gate")]
    assert evaluated == []
