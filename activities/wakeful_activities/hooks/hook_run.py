"""Run hooks of plugins: one after another, each with its time and at its own risk.

`Hooks` finds the plugins that a run is bound to, `HookRun` is what the hooks of one activity come to, and `Moments` is
the activity for hooks that need one of their own. A hook that fails never fails the activity: it is passed over and
reported, or, if its plugin says so, the run is asked to fail. One that fails at the gate blocks its call, besides.
"""

import asyncio
import copy
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json
from temporalio import activity

from wakeful.authoring.gate import GateCall, stronger
from wakeful.authoring.hook_contexts import HookContext, RunEnd, StepEnd, ToolGate
from wakeful.authoring.hook_requests import HookRequests
from wakeful.authoring.plugin import AnyPlugin, hook_name
from wakeful.authoring.profiles import Profiles
from wakeful.authoring.state import State
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.gates import Block, SetResult, Verdict
from wakeful.contract.hooks import HookEffects, HookFailure, HooksInput, LifecyclePhase, Phase, PluginBinding
from wakeful.contract.names import ACTIVITY_HOOKS
from wakeful.contract.runs import RunIdentity
from wakeful.contract.state import StateView
from wakeful.registry.plugin_bindings import bound_settings
from wakeful.registry.plugin_lifecycles import PluginLifecycles
from wakeful.registry.registry import Registry
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.results import cut_to_fit, returning

ASKED_LIMIT = 128_000
"""Bytes of JSON that one hook may ask for: history keeps them."""

ASKED_LIMIT_TOGETHER = 512_000
"""Bytes of JSON that the hooks of one activity may ask for."""

REASON_LIMIT = 4_000
"""Characters that are told of why a hook failed."""

KNOWN_SETTINGS = 1024
"""How many bindings' settings are kept ready."""

OpenProfiles = Callable[[], Profiles]
"""Gives a call or a hook its profiles."""

Making = Callable[..., HookContext]
"""Makes a hook's context of what all contexts have."""


class _Failed(Exception):
    """A hook that cannot be run or did not do what hooks do; the message says why."""


class Hooks:
    """The plugins that this worker's registry has.

    Args:
        threads: for sync hooks; those that hang must not take the threads of tools or gates.
    """

    def __init__(
        self,
        registry: Registry,
        threads: ThreadPoolExecutor,
        profiles: OpenProfiles = Profiles,
        lifecycles: PluginLifecycles | None = None,
    ) -> None:
        self._registry = registry
        self._threads = threads
        self._lifecycles = lifecycles
        self.profiles = profiles
        self._settings: OrderedDict[str, BaseModel] = OrderedDict()

    def begin(self, agent: ResolvedAgent, identity: RunIdentity, step: int, view: StateView | None) -> "HookRun":
        """The hooks of one activity."""
        return HookRun(self, agent, identity, step, State(view, agent.state_keys, agent_id=agent.agent_id))

    def plugin(self, id: str) -> AnyPlugin | None:
        return self._registry.plugin(id)

    def settings(self, plugin: AnyPlugin, binding: PluginBinding) -> BaseModel:
        """The hook's own copy of the settings: what it does to them stays with it."""
        key = binding.model_dump_json(include={"id", "settings"})
        if not isinstance(self._settings.get(key), plugin.settings_type):
            try:
                self._settings[key] = bound_settings(plugin, binding)
            except ValueError as error:
                raise _Failed(f"the settings that the run is bound to do not fit any more: {error}") from error
            while len(self._settings) > KNOWN_SETTINGS:
                self._settings.popitem(last=False)
        return self._settings[key].model_copy(deep=True)

    async def set_up(self, plugin: AnyPlugin) -> None:
        """A plugin that the registry was given after the worker began has not been set up yet."""
        if self._lifecycles is not None:
            await self._lifecycles.set_up(plugin)

    async def call(self, plugin: AnyPlugin, hook: str, context: HookContext) -> None:
        function = getattr(plugin, hook)
        if inspect.iscoroutinefunction(function):
            said: object = function(context)
        else:
            said = await asyncio.get_running_loop().run_in_executor(self._threads, returning, function, context)
        if inspect.isawaitable(said):
            said = await said
        if said is not None:
            raise _Failed(f"it returned a {type(said).__name__}; hooks return nothing, they ask by the context's verbs")


class HookRun:
    """The hooks of one activity: each sees what those before it wrote, and what they ask for adds up."""

    def __init__(self, hooks: Hooks, agent: ResolvedAgent, identity: RunIdentity, step: int, state: State) -> None:
        self._hooks = hooks
        self._agent = agent
        self._identity = identity
        self._step = step
        self._asked_bytes = 0
        self._failures: list[HookFailure] = []
        self._fail: str | None = None
        self.state = state
        self.requests = HookRequests()

    @cached_property
    def _shown(self) -> ResolvedAgent:
        """The agent as hooks see it: one that changes it must not change what the worker remembers."""
        return self._agent.model_copy(deep=True)

    @property
    def is_over(self) -> bool:
        """A hook wants the run to end."""
        return self._fail is not None or self.requests.ends_run

    @property
    def failure(self) -> str | None:
        """Why the run cannot go on: a hook failed that it cannot do without."""
        return self._fail

    @property
    def effects(self) -> HookEffects | None:
        """What the loop is asked for; None if that is nothing."""
        effects = _effects(self.requests, self.state)
        effects = effects.model_copy(update={"failures": tuple(self._failures), "fail": self._fail})
        return None if effects == HookEffects(base=self.state.base) else effects

    def at(self, when: Phase | LifecyclePhase) -> Iterator[PluginBinding]:
        """The plugins with such a hook, in order; none after one that the run cannot do without has failed."""
        for binding in self._agent.plugins:
            bound = binding.lifecycle if isinstance(when, LifecyclePhase) else binding.phases
            if when in bound and self._fail is None:
                yield binding

    async def ask(self, binding: PluginBinding, when: Phase | LifecyclePhase, make: Making) -> HookRequests:
        """Run one hook. What it asks for is counted, and given back; of one that fails, nothing, but a gate blocks."""
        plugin, requests, state = self._hooks.plugin(binding.id), HookRequests(), self.state.staged()
        try:
            if plugin is None:
                raise _Failed("it is not on this worker; is its registry up to date?")
            await self._hooks.set_up(plugin)
            context = make(
                identity=self._identity,
                agent=self._shown,
                settings=self._hooks.settings(plugin, binding),
                plugin_id=binding.id,
                step=self._step,
                state=state,
                profiles=self._hooks.profiles(),
                requests=requests,
            )
            await self._in_time(plugin, hook_name(when), context)
            requests = self._counted(requests, state)
        except Exception as error:  # the boundary: a hook's failure is a value
            why = self._note(plugin, binding, when, error)
            # A gate that nobody could ask must not let the call pass.
            return (
                HookRequests(verdict=Block(reason=why))
                if when is Phase.TOOL_GATE and self._fail is None
                else HookRequests()
            )
        self.state.commit(state)
        self.requests.merge(requests)
        return requests

    async def verdict(self, call: GateCall, strongest: Verdict | None) -> Verdict | None:
        """What counts of `strongest` and of what plugins say of a call; nobody is asked after one that blocks."""
        for binding in self.at(Phase.TOOL_GATE):
            if isinstance(strongest, Block):
                break
            make: Making = partial(
                ToolGate,
                call_id=call.call_id,
                tool_name=call.tool_name,
                arguments=copy.deepcopy(call.arguments),
                tool=copy.deepcopy(call.tool),
                resume=call.resume,
                is_first_check=call.is_first_check,
            )
            said = (await self.ask(binding, Phase.TOOL_GATE, make)).verdict
            if isinstance(said, SetResult):
                said = SetResult(result=cut_to_fit(said.result))
            strongest = stronger(strongest, said)
        return strongest

    async def _in_time(self, plugin: AnyPlugin, hook: str, context: HookContext) -> None:
        try:
            async with asyncio.timeout(plugin.timeout) as deadline:
                await self._hooks.call(plugin, hook, context)
        except TimeoutError as error:
            if deadline.expired():
                raise _Failed(f"it took longer than {plugin.timeout:g} s") from error
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise _Failed("it cancelled itself") from error  # nobody else wants the activity to stop

    def _counted(self, requests: HookRequests, state: State) -> HookRequests:
        """A copy of what a hook asked for, if history can hold it; nothing says that it keeps to the types."""
        try:
            checked = _WISHES.validate_json(_WISHES.dump_json(requests, warnings="error"))
        except (PydanticSerializationError, ValueError) as error:
            raise _Failed(f"it asked for what cannot be written down: {_in_one_line(error)}") from error
        # Not counted: messages, which are not recorded, and results, which are cut.
        size = len(_effects(checked, state).model_dump_json().encode()) + len((checked.text or "").encode())
        if not isinstance(checked.verdict, SetResult):
            size += len(to_json(checked.verdict))
        if size > ASKED_LIMIT:
            raise _Failed(f"it asked for too much: {size:,} bytes, and at most {ASKED_LIMIT:,} fit")
        if self._asked_bytes + size > ASKED_LIMIT_TOGETHER:
            raise _Failed(f"it asked for too much: with the hooks before it, more than {ASKED_LIMIT_TOGETHER:,} bytes")
        self._asked_bytes += size
        return checked

    def _note(
        self, plugin: AnyPlugin | None, binding: PluginBinding, when: Phase | LifecyclePhase, error: Exception
    ) -> str:
        id = binding.id
        activity.logger.warning("hook failed", extra={"plugin": id, "phase": when.value}, exc_info=error)
        named = str(error) if isinstance(error, _Failed) else f"{type(error).__name__}: {error}".removesuffix(": ")
        named = named[:REASON_LIMIT].encode(errors="replace").decode()  # history must be able to hold it
        why = f"plugin {id!r} failed at {when.value}: {named}"
        # The binding: a guard must not be got rid of by a worker that does not have it. The plugin: older bindings say
        # nothing.
        if binding.on_error == "fail" or (plugin is not None and plugin.on_error == "fail"):
            self._fail = why
        else:
            self._failures.append(HookFailure(plugin=id, phase=when.value, error=named))
        return why


class HooksActivity:
    """The `run_hooks` activity: hooks at a run's beginning and end, after a step, and when an agent comes and goes."""

    def __init__(self, cache: HistoryCache, hooks: Hooks) -> None:
        self._cache = cache
        self._hooks = hooks

    @activity.defn(name=ACTIVITY_HOOKS)
    async def run_hooks(self, input: HooksInput) -> HookEffects:
        agent = await self._cache.agent(input.agent)
        run = self._hooks.begin(agent, input.identity, input.step, input.state)
        for moment in input.phases:
            for binding in run.at(moment):
                await run.ask(binding, moment, _context_at(moment, input))
        return run.effects or HookEffects(base=run.state.base)


_WISHES = TypeAdapter(HookRequests)


def _effects(asked: HookRequests, state: State) -> HookEffects:
    return HookEffects(
        base=state.base,
        state=state.operations,
        context=asked.context,
        forget=asked.forget,
        permissions=asked.permissions,
        events=asked.events,
        handoff=asked.handoff,
        stop=asked.stop,
        block=asked.block,
        retry=asked.retry,
    )


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _context_at(moment: LifecyclePhase, input: HooksInput) -> Making:
    match moment:
        case LifecyclePhase.STEP_END:
            return partial(StepEnd, response=input.response)
        case LifecyclePhase.RUN_END:
            assert input.result is not None  # the loop tells how the run ends
            return partial(RunEnd, result=input.result.model_copy(deep=True))
        case LifecyclePhase.ACTIVATE | LifecyclePhase.RUN_START | LifecyclePhase.DEACTIVATE:
            return HookContext
