"""Plugins: what a class with hooks is bound to, what is wrong with it, and what comes of several wishes."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

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
    RunEnd,
    StateKey,
    ToolGate,
    ToolResult,
    tool,
)
from wakeful.authoring.hook_contexts import AfterToolExecute, NoSettings
from wakeful.authoring.hook_requests import HookRequests
from wakeful.authoring.plugin import (
    CONTEXT_THROTTLE,
    bindings,
    bound_settings,
    plugin_problems,
    setting_up,
    state_specs,
    tools_of,
    usage_problems,
)
from wakeful.contract.agents import ModelBinding, ResolvedAgent
from wakeful.contract.gates import Block, SetResult, Suspend
from wakeful.contract.hooks import EmittedEvent, LifecyclePhase, Phase, PluginBinding
from wakeful.contract.messages import TextBlock, ToolCall
from wakeful.contract.runs import RunIdentity, StopDetail

VISITS = StateKey("visits", int, merge="add", default=0)


@tool
def remind(text: str) -> str:
    """Remind."""
    return text


class ReminderSettings(BaseModel):
    every: int = 3


class Reminder(Plugin[ReminderSettings]):
    id = "reminder"
    state = (VISITS,)
    tools = (remind,)

    async def before_inference(self, ctx: BeforeInference[ReminderSettings]) -> None:
        ctx.tell_model("reminder", "be brief", cooldown_turns=ctx.settings.every)

    def run_end(self, ctx: RunEnd[ReminderSettings]) -> None: ...


class Quiet(Plugin):
    id = "quiet"

    def on_activate(self, ctx: HookContext) -> None: ...


class Louder(Quiet):
    id = "louder"

    def run_start(self, ctx: HookContext) -> None: ...


def context(kind: Callable[..., Any] = HookContext, **more: Any) -> Any:
    agent = ResolvedAgent(agent_id="a", model=ModelBinding(id="m", provider="m", name="m"))
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    return kind(identity=identity, agent=agent, settings=NoSettings(), plugin_id="p", **more)


def test_a_plugin_is_bound_by_its_hooks_and_settings() -> None:
    """B-062."""
    assert bindings([Reminder(), Quiet(), Louder()], {"reminder": {"every": 5}}) == (
        PluginBinding(
            id="reminder",
            settings={"every": 5},
            phases=(Phase.BEFORE_INFERENCE, Phase.RUN_END),
            lifecycle=(LifecyclePhase.RUN_END,),
        ),
        PluginBinding(id="quiet", lifecycle=(LifecyclePhase.ACTIVATE,)),
        PluginBinding(
            id="louder", phases=(Phase.RUN_START,), lifecycle=(LifecyclePhase.ACTIVATE, LifecyclePhase.RUN_START)
        ),
    )


def test_defaults_are_bound_too_and_models_are_settings_as_well() -> None:
    (bound,) = bindings([Reminder()], {})
    assert bound.settings == {"every": 3}
    (bound,) = bindings([Reminder()], {"reminder": ReminderSettings(every=9)})
    assert bound_settings(Reminder(), bound) == ReminderSettings(every=9)


def test_settings_that_a_plugin_has_no_more_are_left_out_and_others_must_fit() -> None:
    older = PluginBinding(id="reminder", settings={"every": 2, "loudly": True})
    assert bound_settings(Reminder(), older) == ReminderSettings(every=2)
    with pytest.raises(ValueError):
        bound_settings(Reminder(), PluginBinding(id="reminder", settings={"every": "often"}))


def test_an_agent_has_the_keys_and_tools_of_its_plugins() -> None:
    mine = StateKey("mine", str, default="")
    assert state_specs([mine], [Reminder()]) == (CONTEXT_THROTTLE.spec, mine.spec, VISITS.spec)
    assert state_specs([mine], [Quiet()]) == (mine.spec,)
    assert tools_of([Reminder(), Quiet()]) == (remind,)


@pytest.mark.parametrize(
    ("name", "hook"),
    [("befor_inference", "before_inference"), ("run_started", "run_start"), ("activate", "on_activate")],
)
def test_a_method_that_is_almost_a_hook_is_refused_with_its_class(name: str, hook: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        type("Counter", (Plugin,), {name: Quiet.on_activate})
    assert refused.value.problems == (f"plugin class 'Counter': {name!r} is no hook; did you mean {hook!r}?",)


def test_other_methods_of_a_plugin_are_its_own_business() -> None:
    def method(self: Any, ctx: Any) -> None: ...

    counter = type("Counter", (Plugin,), {"count": method, "_run_starts": method, "run_start": method})
    assert counter.hook_names() == ("run_start",)  # type: ignore[attr-defined]  # type() knows no more than `type`


class Locked(BaseModel):
    password: SecretStr = SecretStr("x")


class Keeper(Plugin[Locked]):
    id = "keeper"


def test_what_is_wrong_with_an_agents_use_of_plugins_is_listed() -> None:
    given = {"reminder": {"evry": 1}, "quiet": ReminderSettings(), "lost": {}}
    keys = [StateKey("visits", int, default=0), StateKey("__own", int, default=0)]
    assert usage_problems("a", [Reminder(), Quiet(), Keeper()], given, keys) == [
        "agent 'a' has settings for plugin 'lost', which it does not use; used: reminder, quiet, keeper",
        "agent 'a': the settings of plugin 'reminder' do not fit: evry: Extra inputs are not permitted",
        "agent 'a': the settings of plugin 'quiet' do not fit: they are a ReminderSettings, not a NoSettings",
        "agent 'a': the settings of plugin 'keeper' are not the same once they are written and read again: "
        "secrets belong into the environment of the worker",
        "agent 'a' has state key '__own': names with '__' are reserved",
        "agent 'a' has state key 'visits' twice, declared in different ways",
    ]
    assert usage_problems("a", [Reminder()], {}, [VISITS]) == []
    with pytest.raises(ConfigurationError, match="evry"):
        bindings([Reminder()], given)


class Wrong(Plugin):
    timeout = 0
    on_error: ClassVar[Any] = "explode"

    def step_end(self) -> None: ...  # type: ignore[override]


def test_what_is_wrong_with_a_plugin_is_listed() -> None:
    assert plugin_problems(Reminder()) == []
    assert plugin_problems(Wrong()) == [
        "plugin 'Wrong' has no id: write one into the class, as in id = 'reminder'",
        "plugin 'Wrong' has timeout 0; it must be more than 0 seconds",
        "plugin 'Wrong' has on_error 'explode'; write 'skip' or 'fail'",
        "plugin 'Wrong': step_end must take one argument, the context: too many positional arguments",
    ]


def test_agents_list_instances_or_ids() -> None:
    agent = Agent(id="a", plugins=[Reminder(), "quiet"], plugin_settings={"reminder": {"every": 2}}, state=[VISITS])
    assert agent.plugin_ids == ("reminder", "quiet")
    with pytest.raises(ValidationError, match=r"'Reminder' is a class: list an instance of it, Reminder\(\)"):
        Agent(id="a", plugins=[Reminder])  # type: ignore[list-item]
    with pytest.raises(ValidationError, match="those of 'reminder' are a int: write a mapping or a pydantic model"):
        Agent(id="a", plugin_settings={"reminder": 3})


async def test_plugins_are_set_up_in_order_and_shut_down_in_reverse() -> None:
    heard: list[str] = []

    class Server(Plugin):
        def __init__(self, name: str, *, fails: bool = False) -> None:
            self.name, self.fails = name, fails

        async def setup(self) -> None:
            heard.append(f"+{self.name}")
            if self.fails:
                raise ConnectionError(self.name)

        async def shutdown(self) -> None:
            heard.append(f"-{self.name}")

    async with setting_up([Server("a"), Server("b")]):
        heard.append("work")
    assert heard == ["+a", "+b", "work", "-b", "-a"]
    heard.clear()
    with pytest.raises(ConnectionError):
        async with setting_up([Server("a"), Server("b", fails=True), Server("c")]):
            heard.append("work")
    assert heard == ["+a", "+b", "-a"]


def test_verbs_record_what_a_hook_asks_for() -> None:
    ctx = context()
    rule = Rule(tool="pay", behavior=Behavior.DENY)
    ctx.tell_model("a", "one")
    ctx.tell_model("b", "two", persistent=True)
    ctx.tell_model(ContextMessage(key="a", content=(TextBlock(text="three"),)))
    ctx.forget("b")
    ctx.forget("c")
    ctx.tell_model("c", "four")
    ctx.emit("noticed", {"n": 1})
    ctx.stop("enough", "of it")
    ctx.stop("later")
    ctx.block("no")
    ctx.block("never")
    ctx.hand_off("b")
    ctx.hand_off("c")
    ctx.permit(rule)
    assert ctx.requests == HookRequests(
        context=(
            ContextMessage(key="a", content=(TextBlock(text="three"),)),
            ContextMessage(key="c", content=(TextBlock(text="four"),)),
        ),
        forget=("b",),
        events=(EmittedEvent(plugin="p", name="noticed", payload={"n": 1}),),
        stop=StopDetail(code="enough", detail="of it"),
        block="no",
        handoff="c",
        permissions=(rule,),
    )


def test_what_the_loop_could_not_take_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="the '\\(' is never closed"):
        context().permit(Rule(tool="pay(", behavior=Behavior.DENY))
    with pytest.raises(TypeError, match="nothing that JSON can hold"):
        context().emit("noticed", object())
    result = ToolResult.success("pay", 1)
    after = context(AfterToolExecute, call=ToolCall(id="c", name="pay"), result=result)
    with pytest.raises(ValueError, match="a call is suspended in `tool_gate`"):
        after.set_result(ToolResult.suspended("pay"))


def test_tools_are_included_by_any_hook_and_excluded_by_any() -> None:
    """B-072, B-073."""
    first, second = context(BeforeInference, messages=()), context(BeforeInference, messages=())
    first.include_only_tools("a", "b")
    first.exclude_tools("b", "unknown")
    second.include_only_tools("c")
    second.exclude_tools("b")
    first.requests.take(second.requests)
    assert [id for id in "abcd" if first.requests.shows(id)] == ["a", "c"]
    assert HookRequests().shows("a")


def test_of_overrides_the_last_one_counts_field_by_field() -> None:
    """B-071."""
    first, second = context(BeforeInference, messages=()), context(BeforeInference, messages=())
    first.override(InferenceOverrides(temperature=0.1, max_tokens=5))
    second.override(InferenceOverrides(temperature=0.9))
    first.requests.take(second.requests)
    assert first.requests.overrides == InferenceOverrides(temperature=0.9, max_tokens=5)


def test_the_first_stop_and_the_last_word_on_a_key_count() -> None:
    total, more = HookRequests(), context()
    total.stop = StopDetail(code="first")
    total.tell(ContextMessage(key="a", content=()))
    more.stop("second")
    more.block("no")
    more.forget("a")
    total.take(more.requests)
    assert total == HookRequests(stop=StopDetail(code="first"), block="no", forget=("a",))


def test_a_verdict_blocks_before_it_suspends_before_it_has_a_result() -> None:
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
