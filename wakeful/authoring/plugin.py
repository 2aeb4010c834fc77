"""`Plugin`: a class with hooks for the phases of a run.

A hook is a method named after its phase, sync or async. It gets one context, makes requests by calling the context's
methods, and returns None. Hooks run in activities and may do I/O. After a lost worker or a retried model call a hook
runs again; its requests are applied once.

The hooks of one phase run one after another, in the order of the agent's plugins; `hook_requests.py` says how their
requests are merged. A run is bound to its plugins by id and settings, so you can change the code while it sleeps.
"""

import inspect
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, ClassVar, Generic, Literal, get_args, get_origin

from pydantic import BaseModel

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
from wakeful.authoring.lifespan import D, asked_type
from wakeful.authoring.state import StateKey
from wakeful.authoring.tool import Tool
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.hooks import LifecyclePhase, Phase
from wakeful.contract.suggestions import nearest

HookReturn = Awaitable[None] | None
"""Hooks return None, sync or async."""

SIMILARITY = 0.8
"""How similar to a hook's name, by difflib, a method's name must be to count as a misspelt hook."""


class Plugin(Generic[S, D]):
    """A set of hooks. An agent that lists it in `plugins` also gets its tools and state keys.

    `class Reminder(Plugin[ReminderSettings])` declares settings, a pydantic model. Agents set them in
    `plugin_settings`; hooks read them from `ctx.settings`. One instance serves all runs of a worker at once, so do not
    store anything about a run on it: use state. `class Audit(Plugin[NoSettings, Database])` says what `ctx.deps` is:
    the value that the registry's lifespan yields.

    If a hook raises or takes longer than `timeout` seconds, it is skipped and a `hook_failed` event is emitted; a
    `tool_gate` that fails blocks its call. Set `on_error = "fail"` to fail the run instead, for example in a guardrail.
    """

    id: ClassVar[str] = ""
    state: ClassVar[Sequence[StateKey[Any]]] = ()
    tools: Sequence[Tool] = ()
    timeout: ClassVar[float] = 5.0
    on_error: ClassVar[Literal["skip", "fail"]] = "skip"
    settings_type: ClassVar[type[BaseModel]] = NoSettings
    deps_type: ClassVar[object] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if problems := _misspelt_hooks(cls):
            raise ConfigurationError(problems)
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin, arguments = get_origin(base), get_args(base)
            is_plugin = isinstance(origin, type) and issubclass(origin, Plugin)
            if is_plugin and isinstance(arguments[0], type) and issubclass(arguments[0], BaseModel):
                cls.settings_type = arguments[0]
            if is_plugin and len(arguments) > 1:
                cls.deps_type = asked_type(base, Plugin)

    async def setup(self) -> None:
        """Called once per worker process before the plugin's first hook, usually when the worker starts."""

    async def shutdown(self) -> None:
        """Called once per worker process, after the worker has stopped."""

    def on_activate(self, ctx: HookContext[S, D]) -> HookReturn:
        """The agent takes over the run: when the run starts, or by a handoff."""

    def run_start(self, ctx: HookContext[S, D]) -> HookReturn:
        """A run starts."""

    def step_start(self, ctx: StepStart[S, D]) -> HookReturn:
        """A step starts."""

    def before_inference(self, ctx: BeforeInference[S, D]) -> HookReturn:
        """The model is about to be called."""

    def after_inference(self, ctx: AfterInference[S, D]) -> HookReturn:
        """The model has answered."""

    def tool_gate(self, ctx: ToolGate[S, D]) -> HookReturn:
        """Decide whether a tool call may run. Called with the answer and again before the call: no side effects."""

    def before_tool_execute(self, ctx: BeforeToolExecute[S, D]) -> HookReturn:
        """A tool call is about to run."""

    def after_tool_execute(self, ctx: AfterToolExecute[S, D]) -> HookReturn:
        """A tool call has returned a result; not called when it is suspended."""

    def step_end(self, ctx: StepEnd[S, D]) -> HookReturn:
        """A step has ended."""

    def run_end(self, ctx: RunEnd[S, D]) -> HookReturn:
        """The run ends."""

    def on_deactivate(self, ctx: HookContext[S, D]) -> HookReturn:
        """The agent leaves the run: when the run ends, or by a handoff."""

    @classmethod
    def hook_names(cls) -> tuple[str, ...]:
        """The hooks that this plugin implements, in the order of a run."""
        return tuple(name for name in _HOOKS if getattr(cls, name) is not getattr(Plugin, name))


AnyPlugin = Plugin[Any, Any]

_LIFECYCLE_HOOKS = {
    LifecyclePhase.ACTIVATE: "on_activate",
    LifecyclePhase.RUN_START: "run_start",
    LifecyclePhase.STEP_END: "step_end",
    LifecyclePhase.RUN_END: "run_end",
    LifecyclePhase.DEACTIVATE: "on_deactivate",
}
_HOOKS = ("on_activate", *(phase.value for phase in Phase), "on_deactivate")


def hook_name(phase: Phase | LifecyclePhase) -> str:
    """The name of the hook method for a phase."""
    return _LIFECYCLE_HOOKS[phase] if isinstance(phase, LifecyclePhase) else phase.value


def tools_of(plugins: Iterable[AnyPlugin]) -> tuple[Tool, ...]:
    """The tools of all these plugins."""
    return tuple(tool for plugin in plugins for tool in plugin.tools)


def _misspelt_hooks(cls: type[AnyPlugin]) -> list[str]:
    # A misspelt hook would silently never be called.
    methods = [name for name, value in vars(cls).items() if inspect.isfunction(value) and not name.startswith("_")]
    similar = {name: nearest(name, _HOOKS, similarity=SIMILARITY) for name in methods if name not in _HOOKS}
    return [
        f"plugin class {cls.__name__!r}: {name!r} is not a hook; did you mean {hook!r}?"
        for name, hook in similar.items()
        if hook is not None
    ]
