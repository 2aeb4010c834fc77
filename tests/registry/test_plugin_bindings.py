"""How runs are bound to plugins: settings, hooks and state keys as data, and the problems with them."""

from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, SecretStr

from wakeful import (
    Agent,
    BeforeInference,
    ConfigurationError,
    HookContext,
    Plugin,
    Registry,
    RunEnd,
    StateKey,
    tool,
)
from wakeful.authoring.plugin import tools_of
from wakeful.contract.hooks import LifecyclePhase, Phase, PluginBinding
from wakeful.registry.plugin_bindings import (
    CONTEXT_THROTTLE,
    bindings,
    bound_settings,
    plugin_problems,
    state_specs,
    usage_problems,
)

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
        ctx.add_context("reminder", "be brief", cooldown_turns=ctx.settings.every)

    def run_end(self, ctx: RunEnd[ReminderSettings]) -> None: ...


class Quiet(Plugin):
    id = "quiet"

    def on_activate(self, ctx: HookContext) -> None: ...


class Louder(Quiet):
    id = "louder"

    def run_start(self, ctx: HookContext) -> None: ...


def test_a_binding_has_the_hooks_and_settings_of_a_plugin() -> None:
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


def test_a_binding_has_the_defaults_and_settings_may_be_a_model() -> None:
    (bound,) = bindings([Reminder()], {})
    assert bound.settings == {"every": 3}
    (bound,) = bindings([Reminder()], {"reminder": ReminderSettings(every=9)})
    assert bound_settings(Reminder(), bound) == ReminderSettings(every=9)


def test_bound_settings_drop_removed_fields_and_must_match_the_others() -> None:
    older = PluginBinding(id="reminder", settings={"every": 2, "loudly": True})
    assert bound_settings(Reminder(), older) == ReminderSettings(every=2)
    with pytest.raises(ValueError):
        bound_settings(Reminder(), PluginBinding(id="reminder", settings={"every": "often"}))


def test_an_agent_has_the_keys_and_tools_of_its_plugins() -> None:
    mine = StateKey("mine", str, default="")
    assert state_specs([mine], [Reminder()]) == (CONTEXT_THROTTLE.spec, mine.spec, VISITS.spec)
    assert state_specs([mine], [Quiet()]) == (mine.spec,)
    assert tools_of([Reminder(), Quiet()]) == (remind,)


class Locked(BaseModel):
    password: SecretStr = SecretStr("x")


class Keeper(Plugin[Locked]):
    id = "keeper"


def test_problems_of_an_agents_settings_and_state_keys_are_listed() -> None:
    given = {"reminder": {"evry": 1}, "quiet": ReminderSettings(), "lost": {}}
    keys = [StateKey("visits", int, default=0), StateKey("__own", int, default=0)]
    assert usage_problems("a", [Reminder(), Quiet(), Keeper()], given, keys) == [
        "agent 'a' has settings for plugin 'lost', which it does not use; used: reminder, quiet, keeper",
        "agent 'a': the settings of plugin 'reminder' are invalid: evry: Extra inputs are not permitted",
        "agent 'a': the settings of plugin 'quiet' are invalid: they are a ReminderSettings, not a NoSettings",
        "agent 'a': the settings of plugin 'keeper' change when they are serialized to JSON and read back: "
        "put secrets into the worker's environment",
        "agent 'a' declares state key '__own': names that start with '__' are reserved",
        "agent 'a' declares state key 'visits' twice, with different specifications",
    ]
    assert usage_problems("a", [Reminder()], {}, [VISITS]) == []
    with pytest.raises(ConfigurationError, match="evry"):
        bindings([Reminder()], given)


class Wrong(Plugin):
    timeout = 0
    on_error: ClassVar[Any] = "explode"

    def step_end(self) -> None: ...  # type: ignore[override]


def test_problems_of_a_plugin_are_listed() -> None:
    assert plugin_problems(Reminder()) == []
    assert plugin_problems(Wrong()) == [
        "plugin 'Wrong' has no id: set one in the class, as in id = 'reminder'",
        "plugin 'Wrong' has timeout 0; it must be more than 0 seconds",
        "plugin 'Wrong' has on_error 'explode'; use 'skip' or 'fail'",
        "plugin 'Wrong': step_end must take one argument, the context: too many positional arguments",
    ]


def test_agents_must_give_a_state_key_the_same_scope() -> None:
    lasting = StateKey("visits", int, merge="add", default=0, scope="thread")

    class Counter(Plugin):
        id = "counter"
        state: ClassVar[list[StateKey[Any]]] = [lasting]

    with pytest.raises(ConfigurationError) as refused:
        Registry(agents=[Agent(id="a", state=[VISITS]), Agent(id="b", plugins=[Counter()])])
    assert refused.value.problems == (
        "state key 'visits' has scope 'run' in agent 'a' and 'thread' in agent 'b': "
        "declare it with one scope, or rename it",
    )
    Registry(agents=[Agent(id="a", state=[lasting]), Agent(id="b", plugins=[Counter()])])


def test_an_agent_can_use_only_some_of_its_plugins_b063() -> None:
    class Quiet(Plugin):
        id = "quiet"

        def run_start(self, ctx: HookContext) -> None: ...

    agent = Agent(id="a", plugins=[Reminder(), Quiet()], active_plugins=["quiet"])
    resolved = Registry(agents=[agent]).resolve("a")
    assert [binding.id for binding in resolved.plugins] == ["quiet"]
    assert resolved.tools == ()
    assert VISITS.spec in resolved.state_keys, "state keys are declared in any case"
    everything = Registry(agents=[agent.model_copy(update={"active_plugins": None})]).resolve("a")
    assert [binding.id for binding in everything.plugins] == ["reminder", "quiet"]
    assert [tool.id for tool in everything.tools] == ["remind"]
    nothing = Registry(agents=[agent.model_copy(update={"active_plugins": []})]).resolve("a")
    assert (nothing.plugins, nothing.tools) == ((), ())


def test_an_active_plugin_must_be_one_of_the_agents_plugins() -> None:
    with pytest.raises(ConfigurationError, match="agent 'a' has active_plugins with 'remindr', which it does not list"):
        Registry(agents=[Agent(id="a", plugins=[Reminder()], active_plugins=["remindr"])])
