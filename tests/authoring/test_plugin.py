"""Plugins: their hooks, and the requests that hooks make."""

from collections.abc import Callable
from typing import Any

import pytest

from wakeful import (
    Agent,
    BeforeInference,
    Behavior,
    ConfigurationError,
    ContextMessage,
    HookContext,
    InferenceOverrides,
    Plugin,
    Rule,
    StateKey,
    ToolGate,
    ToolResult,
)
from wakeful.authoring.hook_contexts import AfterToolExecute, NoSettings
from wakeful.authoring.hook_requests import HookRequests
from wakeful.contract.agents import ModelBinding, ResolvedAgent
from wakeful.contract.errors import InvalidValue
from wakeful.contract.gates import Block, SetResult, Suspend
from wakeful.contract.hooks import EmittedEvent, FinalAnswer
from wakeful.contract.messages import TextBlock, ToolCall
from wakeful.contract.runs import RunIdentity, StopDetail

VISITS = StateKey("visits", int, merge="add", default=0)


class Reminder(Plugin):
    id = "reminder"


class Quiet(Plugin):
    id = "quiet"

    def on_activate(self, ctx: HookContext) -> None: ...


def context(kind: Callable[..., Any] = HookContext, **more: Any) -> Any:
    agent = ResolvedAgent(agent_id="a", model=ModelBinding(id="m", provider="m", name="m"))
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    return kind(identity=identity, agent=agent, settings=NoSettings(), plugin_id="p", **more)


@pytest.mark.parametrize(
    ("name", "hook"),
    [("befor_inference", "before_inference"), ("run_started", "run_start"), ("activate", "on_activate")],
)
def test_a_misspelt_hook_is_rejected_with_its_class(name: str, hook: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        type("Counter", (Plugin,), {name: Quiet.on_activate})
    assert refused.value.problems == (f"plugin class 'Counter': {name!r} is not a hook; did you mean {hook!r}?",)


def test_a_plugin_may_have_other_methods() -> None:
    def method(self: Any, ctx: Any) -> None: ...

    counter = type("Counter", (Plugin,), {"count": method, "_run_starts": method, "run_start": method})
    assert counter.hook_names() == ("run_start",)  # type: ignore[attr-defined]  # type() returns a plain `type`


def test_agents_list_instances_or_ids() -> None:
    agent = Agent(id="a", plugins=[Reminder(), "quiet"], plugin_settings={"reminder": {"every": 2}}, state=[VISITS])
    assert agent.plugin_ids == ("reminder", "quiet")
    with pytest.raises(InvalidValue, match=r"'Reminder' is a class: pass an instance, Reminder\(\)"):
        Agent(id="a", plugins=[Reminder])  # type: ignore[list-item]
    with pytest.raises(InvalidValue, match="the settings of 'reminder' are a int: pass a mapping or a"):
        Agent(id="a", plugin_settings={"reminder": 3})


def test_the_code_of_a_stop_is_short() -> None:
    with pytest.raises(
        ValueError, match=r"the code of a stop has 101 characters, and at most 100 .* Put the text into"
    ):
        context().stop("x" * 101)


def test_the_methods_of_a_context_record_requests() -> None:
    ctx = context()
    rule = Rule(tool="pay", behavior=Behavior.DENY)
    ctx.add_context("a", "one")
    ctx.add_context("b", "two", persistent=True)
    ctx.add_context(ContextMessage(key="a", content=(TextBlock(text="three"),)))
    ctx.remove_context("b")
    ctx.remove_context("c")
    ctx.add_context("c", "four")
    ctx.add_context("old.1", "five")
    ctx.remove_context_prefix("old.")
    ctx.finish("Hello!")
    ctx.finish("Too late.")
    ctx.emit("noticed", {"n": 1})
    ctx.stop("enough", "of it")
    ctx.stop("later")
    ctx.block("no")
    ctx.block("never")
    ctx.handoff("b")
    ctx.handoff("c")
    ctx.add_permissions(rule)
    assert ctx.requests == HookRequests(
        context=(
            ContextMessage(key="a", content=(TextBlock(text="three"),)),
            ContextMessage(key="c", content=(TextBlock(text="four"),)),
        ),
        forget=("b",),
        forget_prefixes=("old.",),
        finish=FinalAnswer(text="Hello!"),
        events=(EmittedEvent(plugin="p", name="noticed", payload={"n": 1}),),
        stop=StopDetail(code="enough", detail="of it"),
        block="no",
        handoff="c",
        permissions=(rule,),
    )


def test_invalid_requests_are_rejected_at_once() -> None:
    with pytest.raises(ValueError, match="the '\\(' is never closed"):
        context().add_permissions(Rule(tool="pay(", behavior=Behavior.DENY))
    with pytest.raises(TypeError, match="is not JSON"):
        context().emit("noticed", object())
    result = ToolResult.success("pay", 1)
    after = context(AfterToolExecute, call=ToolCall(id="c", name="pay"), result=result)
    with pytest.raises(ValueError, match="only `tool_gate` can suspend a call"):
        after.set_result(ToolResult.suspended("pay"))


def test_tools_are_included_by_any_hook_and_excluded_by_any() -> None:
    """B-072, B-073; awaken: exclude_and_include_only_combined"""
    first, second = context(BeforeInference, messages=()), context(BeforeInference, messages=())
    first.include_only_tools("a", "b")
    first.exclude_tools("b", "unknown")
    second.include_only_tools("c")
    second.exclude_tools("b")
    first.requests.merge(second.requests)
    assert [id for id in "abcd" if first.requests.shows(id)] == ["a", "c"]
    assert HookRequests().shows("a")


def test_the_last_override_of_each_field_wins() -> None:
    """B-071."""
    first, second = context(BeforeInference, messages=()), context(BeforeInference, messages=())
    first.override(InferenceOverrides(temperature=0.1, max_tokens=5))
    second.override(InferenceOverrides(temperature=0.9))
    first.requests.merge(second.requests)
    assert first.requests.overrides == InferenceOverrides(temperature=0.9, max_tokens=5)


def test_the_first_stop_and_the_last_request_for_a_key_win() -> None:
    total, more = HookRequests(), context()
    total.stop = StopDetail(code="first")
    total.add_context(ContextMessage(key="a", content=()))
    more.stop("second")
    more.block("no")
    more.remove_context("a")
    total.merge(more.requests)
    assert total == HookRequests(stop=StopDetail(code="first"), block="no", forget=("a",))


def test_a_block_wins_over_a_suspension_and_a_suspension_over_a_result() -> None:
    """B-230."""
    ctx = context(ToolGate, call_id="c", tool_name="pay", arguments={"n": 1})
    ctx.set_result("paid")
    assert isinstance(ctx.requests.verdict, SetResult)
    assert ctx.suspend("sure?") is None
    assert isinstance(ctx.requests.verdict, Suspend)
    ctx.set_result("paid")
    ctx.block("no")
    ctx.block("never")
    assert (ctx.requests.verdict, ctx.requests.block) == (Block(reason="no"), None)
