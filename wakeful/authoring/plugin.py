"""What users write as plugins: a class with hooks for the phases of a run.

A hook is a method named after its phase, sync or async. It is given one context, asks for what it wants by the verbs of
that context, and returns nothing. It runs in an ordinary process and may do I/O; a worker that is lost, or a model call
that is tried again, runs it again, and what it asks for counts once.

Hooks of one phase run one after another, in the order of the agent's plugins; `wakeful/wishes.py` says what comes of it
when several ask for something. A run is bound to its plugins by id, with their settings: the code may change while it
sleeps. How hooks are run is the activities' business, and what becomes of their wishes the loop's.
"""

import asyncio
import contextlib
import difflib
import inspect
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from wakeful.authoring.hook_contexts import (
    AfterInference,
    AfterToolExecute,
    BeforeInference,
    BeforeToolExecute,
    HookContext,
    NoSettings,
    RunEnd,
    S,
    StepEnd,
    StepStart,
    ToolGate,
)
from wakeful.authoring.state import StateKey
from wakeful.authoring.tool import Tool
from wakeful.context.messages import LastShown
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.hooks import LifecyclePhase, Phase, PluginBinding
from wakeful.contract.state import StateKeySpec

Asking = Awaitable[None] | None
"""What a hook returns: nothing, at once or later."""

RESERVED_PREFIX = "__"
"""State keys of the runtime's own begin so."""

ALMOST = 0.8
"""How much a method's name is like a hook's, by difflib, if it is taken for a misspelt one."""

CONTEXT_THROTTLE: StateKey[list[LastShown]] = StateKey("__runtime.context_throttle", list[LastShown], default=[])
"""When the messages were last shown that hooks tell the model right before it is asked."""


class Plugin(Generic[S]):
    """Hooks that belong together. An agent lists it in `plugins`, and has its tools and its state keys then, too.

    `class Reminder(Plugin[ReminderSettings])` has settings, a pydantic model; agents give them in `plugin_settings`,
    and hooks find them in `ctx.settings`. One instance serves all runs of a worker at once, so it keeps nothing about a
    run: that is what state is for.

    A hook that raises, or takes longer than `timeout` seconds, is passed over and reported; only a `tool_gate` that
    fails blocks its call. A plugin that guards something else says `on_error = "fail"`: then the run fails.
    """

    id: ClassVar[str] = ""
    state: ClassVar[Sequence[StateKey[Any]]] = ()
    tools: Sequence[Tool] = ()
    timeout: ClassVar[float] = 5.0
    on_error: ClassVar[Literal["skip", "fail"]] = "skip"
    settings_type: ClassVar[type[BaseModel]] = NoSettings

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if problems := _misspelt_hooks(cls):
            raise ConfigurationError(problems)
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin, arguments = get_origin(base), get_args(base)
            is_plugin = isinstance(origin, type) and issubclass(origin, Plugin)
            if is_plugin and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
                cls.settings_type = arguments[0]

    async def setup(self) -> None:
        """Once in every worker process, before it takes any work; later, if the registry is given the plugin later."""

    async def shutdown(self) -> None:
        """Once in every worker process, when it has stopped."""

    def on_activate(self, ctx: HookContext[S]) -> Asking:
        """The agent takes the run on: at its beginning, or by a handoff."""

    def run_start(self, ctx: HookContext[S]) -> Asking:
        """A run begins."""

    def step_start(self, ctx: StepStart[S]) -> Asking:
        """A step begins."""

    def before_inference(self, ctx: BeforeInference[S]) -> Asking:
        """The model is about to be asked."""

    def after_inference(self, ctx: AfterInference[S]) -> Asking:
        """The model has answered."""

    def tool_gate(self, ctx: ToolGate[S]) -> Asking:
        """May this call be made? Asked with the answer, and again just before; it should only look."""

    def before_tool_execute(self, ctx: BeforeToolExecute[S]) -> Asking:
        """A call is about to be made."""

    def after_tool_execute(self, ctx: AfterToolExecute[S]) -> Asking:
        """A call has come to a result; not for one that is suspended."""

    def step_end(self, ctx: StepEnd[S]) -> Asking:
        """A step has ended."""

    def run_end(self, ctx: RunEnd[S]) -> Asking:
        """The run ends."""

    def on_deactivate(self, ctx: HookContext[S]) -> Asking:
        """The agent lets go of the run: at its end, or by a handoff."""

    @classmethod
    def hook_names(cls) -> tuple[str, ...]:
        """The hooks that it has, in the order of a run."""
        return tuple(name for name in _HOOKS if getattr(cls, name) is not getattr(Plugin, name))


AnyPlugin = Plugin[Any]

_MOMENTS = {
    LifecyclePhase.ACTIVATE: "on_activate",
    LifecyclePhase.RUN_START: "run_start",
    LifecyclePhase.STEP_END: "step_end",
    LifecyclePhase.RUN_END: "run_end",
    LifecyclePhase.DEACTIVATE: "on_deactivate",
}
_HOOKS = ("on_activate", *(phase.value for phase in Phase), "on_deactivate")


def hook_name(when: Phase | LifecyclePhase) -> str:
    """The method that a plugin has for it."""
    return _MOMENTS[when] if isinstance(when, LifecyclePhase) else when.value


def bindings(plugins: Sequence[AnyPlugin], settings: Mapping[str, Any]) -> tuple[PluginBinding, ...]:
    """The plugins of an agent as a run is bound to them.

    Raises:
        ConfigurationError: settings do not fit their plugin.
    """
    return tuple(
        PluginBinding(
            id=plugin.id,
            settings=_pinned(plugin, settings.get(plugin.id)),
            phases=tuple(phase for phase in Phase if phase.value in plugin.hook_names()),
            lifecycle=tuple(moment for moment, name in _MOMENTS.items() if name in plugin.hook_names()),
            on_error="fail" if plugin.on_error == "fail" else None,
        )
        for plugin in plugins
    )


def bound_settings(plugin: AnyPlugin, binding: PluginBinding) -> BaseModel:
    """The settings that a run is bound to, as the plugin has them now; fields that it has no more are left out.

    Raises:
        ValueError: they do not fit any more.
    """
    return plugin.settings_type.model_validate_json(to_json(binding.settings), extra="ignore")


def state_specs(state: Sequence[StateKey[Any]], plugins: Sequence[AnyPlugin]) -> tuple[StateKeySpec, ...]:
    """The keys that an agent and its plugins declare, and those the runtime keeps for them; by name."""
    specs = {key.key: key.spec for key in _keys(state, plugins)}
    if any(name in plugin.hook_names() for plugin in plugins for name in (Phase.STEP_START, Phase.BEFORE_INFERENCE)):
        specs[CONTEXT_THROTTLE.key] = CONTEXT_THROTTLE.spec
    return tuple(specs[key] for key in sorted(specs))


def tools_of(plugins: Iterable[AnyPlugin]) -> tuple[Tool, ...]:
    """The tools that plugins bring along."""
    return tuple(tool for plugin in plugins for tool in plugin.tools)


def plugin_problems(plugin: AnyPlugin) -> list[str]:
    """What is wrong with a plugin itself."""
    name = plugin.id or type(plugin).__name__
    problems = []
    if not plugin.id:
        problems.append(f"plugin {name!r} has no id: write one into the class, as in id = 'reminder'")
    if not plugin.timeout > 0:
        problems.append(f"plugin {name!r} has timeout {plugin.timeout!r}; it must be more than 0 seconds")
    if plugin.on_error not in ("skip", "fail"):
        problems.append(f"plugin {name!r} has on_error {plugin.on_error!r}; write 'skip' or 'fail'")
    for hook in plugin.hook_names():
        try:
            inspect.signature(getattr(plugin, hook)).bind(None)
        except TypeError as error:
            problems.append(f"plugin {name!r}: {hook} must take one argument, the context: {error}")
    return problems


def usage_problems(
    agent_id: str, plugins: Sequence[AnyPlugin], settings: Mapping[str, Any], state: Sequence[StateKey[Any]]
) -> list[str]:
    """What is wrong with how an agent uses plugins and state: settings that do not fit, keys that contradict."""
    used = {plugin.id: plugin for plugin in plugins}
    problems = [
        f"agent {agent_id!r} has settings for plugin {id!r}, which it does not use; used: {', '.join(used) or 'none'}"
        for id in settings
        if id not in used
    ]
    for plugin in used.values():
        try:
            _pinned(plugin, settings.get(plugin.id))
        except ConfigurationError as error:
            problems += [f"agent {agent_id!r}: {problem}" for problem in error.problems]
    known: dict[str, StateKeySpec] = {}
    for key in _keys(state, plugins):
        if known.setdefault(key.key, key.spec) != key.spec:
            problems.append(f"agent {agent_id!r} has state key {key.key!r} twice, declared in different ways")
        if key.key.startswith(RESERVED_PREFIX):
            problems.append(
                f"agent {agent_id!r} has state key {key.key!r}: names with {RESERVED_PREFIX!r} are reserved"
            )
    return problems


class PluginLives:
    """The plugins that a worker has set up, each instance once, also if the registry is given it later."""

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._lives: dict[int, _Life] = {}

    async def begin(self, plugin: AnyPlugin) -> None:
        """Set it up, unless that is done; one whose setup fails is tried again the next time."""
        life = self._lives.setdefault(id(plugin), _Life(plugin))
        async with life.lock:
            if not life.is_set_up:
                await plugin.setup()
                self._stack.push_async_callback(plugin.shutdown)
                life.is_set_up = True

    async def end(self) -> None:
        """Shut down those that were set up, the last one first."""
        await self._stack.aclose()


@dataclass
class _Life:
    plugin: AnyPlugin
    """Held on to: another object could have its `id` otherwise."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_set_up: bool = False


@contextlib.asynccontextmanager
async def setting_up(plugins: Iterable[AnyPlugin], lives: PluginLives | None = None) -> AsyncIterator[None]:
    """Set plugins up, in order, and shut all down that were set up, the last one first, however the body is left."""
    lives = lives or PluginLives()
    try:
        for plugin in plugins:
            await lives.begin(plugin)
        yield
    finally:
        await lives.end()


def _misspelt_hooks(cls: type[AnyPlugin]) -> list[str]:
    """Methods that nobody would ever call, since their names are almost a hook's."""
    methods = [name for name, value in vars(cls).items() if inspect.isfunction(value) and not name.startswith("_")]
    near = {name: difflib.get_close_matches(name, _HOOKS, n=1, cutoff=ALMOST) for name in methods if name not in _HOOKS}
    return [
        f"plugin class {cls.__name__!r}: {name!r} is no hook; did you mean {hooks[0]!r}?"
        for name, hooks in near.items()
        if hooks
    ]


def _keys(state: Sequence[StateKey[Any]], plugins: Sequence[AnyPlugin]) -> list[StateKey[Any]]:
    return [*state, *(key for plugin in plugins for key in plugin.state)]


def _pinned(plugin: AnyPlugin, given: Any) -> dict[str, Any]:
    """An agent's settings for a plugin as JSON, with all defaults: they stay, whatever the defaults become."""
    kind = plugin.settings_type
    try:
        if isinstance(given, BaseModel) and not isinstance(given, kind):
            raise ValueError(f"they are a {type(given).__name__}, not a {kind.__name__}")
        settings = given if isinstance(given, kind) else kind.model_validate(given or {}, extra="forbid")
        written = settings.model_dump(mode="json")
        read = kind.model_validate_json(to_json(written))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ConfigurationError([f"the settings of plugin {plugin.id!r} do not fit: {wrong}"]) from error
    except ValueError as error:
        raise ConfigurationError([f"the settings of plugin {plugin.id!r} do not fit: {error}"]) from error
    if read != settings:  # a secret, most likely: written, it is asterisks
        problem = f"the settings of plugin {plugin.id!r} are not the same once they are written and read again"
        raise ConfigurationError([f"{problem}: secrets belong into the environment of the worker"])
    return written
