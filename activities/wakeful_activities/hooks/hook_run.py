"""Run plugins' hooks one after another, each within its timeout.

`Hooks` has the plugins of the worker's registry; a `HookRun` collects what the hooks of one activity request. A hook
that fails never fails the activity: it is skipped and reported, or, if its plugin says so, it fails the run. A
`tool_gate` hook that fails also blocks its call.
"""

import asyncio
import copy
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

from pydantic import BaseModel, JsonValue, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from wakeful.authoring.gate import GateCall, stronger
from wakeful.authoring.hook_contexts import AfterToolExecute, HookContext, ReadTranscript, ToolGate, no_transcript
from wakeful.authoring.hook_requests import HookRequests
from wakeful.authoring.plugin import AnyPlugin, hook_name
from wakeful.authoring.profiles import Profiles
from wakeful.authoring.state import State
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import json_bytes
from wakeful.contract.decisions import ToolCallResume
from wakeful.contract.gates import Block, SetResult, Verdict
from wakeful.contract.hooks import HookEffects, HookFailure, LifecyclePhase, Phase, PluginBinding
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity
from wakeful.contract.state import StateView
from wakeful.contract.tools import ToolDescriptor, ToolResult, ToolStatus
from wakeful.registry.plugin_bindings import bound_settings
from wakeful.registry.plugin_lifecycles import PluginLifecycles
from wakeful.registry.registry import Registry
from wakeful.telemetry.log_causes import log_failure
from wakeful_activities.results import cut_to_fit
from wakeful_activities.user_code import UserCode, described

_logger = logging.getLogger("wakeful")

REQUEST_LIMIT = 128_000
"""Bytes of JSON that one hook may request: history records them."""

REQUEST_LIMIT_TOGETHER = 512_000
"""Bytes of JSON that the hooks of one activity may request together."""

REASON_LIMIT = 4_000
"""Characters of the reason why a hook failed."""

CACHED_SETTINGS = 1024
"""Bindings whose parsed settings are cached."""

OpenProfiles = Callable[[], Profiles]
"""Opens the profiles for a tool call or a hook."""

MakeContext = Callable[..., HookContext[Any, Any]]
"""Makes a hook's context from the fields that all contexts have."""

_REQUESTS = TypeAdapter(HookRequests)


class Hooks:
    """The plugins of this worker's registry."""

    def __init__(
        self,
        registry: Registry,
        user_code: UserCode,
        profiles: OpenProfiles = Profiles,
        lifecycles: PluginLifecycles | None = None,
    ) -> None:
        self._registry = registry
        self._user_code = user_code
        self._lifecycles = lifecycles
        self.profiles = profiles
        self.dependencies = user_code.dependencies
        self._settings: OrderedDict[str, BaseModel] = OrderedDict()

    def begin(
        self,
        agent: ResolvedAgent,
        identity: RunIdentity,
        step: int,
        view: StateView | None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> "HookRun":
        """The hooks of one activity."""
        state = State(view, agent.state_keys, agent_id=agent.agent_id)
        return HookRun(self, agent, identity, step, state, metadata or {})

    def plugin(self, id: str) -> AnyPlugin | None:
        return self._registry.plugin(id)

    def settings(self, plugin: AnyPlugin, binding: PluginBinding) -> BaseModel:
        """A copy of the settings for one hook, which may change it without effect on others."""
        key = binding.model_dump_json(include={"id", "settings"})
        if not isinstance(self._settings.get(key), plugin.settings_type):
            try:
                self._settings[key] = bound_settings(plugin, binding)
            except ValueError as error:
                raise _HookFailed(f"the settings that the run is bound to are no longer valid: {error}") from error
            while len(self._settings) > CACHED_SETTINGS:
                self._settings.popitem(last=False)
        return self._settings[key].model_copy(deep=True)

    async def set_up(self, plugin: AnyPlugin) -> None:
        """Set up a plugin that was registered after the worker had started."""
        if self._lifecycles is not None:
            await self._lifecycles.set_up(plugin)

    async def call(self, plugin: AnyPlugin, hook: str, context: HookContext[Any, Any]) -> None:
        returned = await self._user_code.call(f"hook {plugin.id}.{hook}", getattr(plugin, hook), context)
        if returned is not None:
            raise _HookFailed(
                f"it returned a {type(returned).__name__}; a hook must return None and call methods of its context"
            )


class HookRun:
    """Runs the hooks of one activity and merges their requests; each hook sees the state that earlier ones wrote."""

    def __init__(
        self,
        hooks: Hooks,
        agent: ResolvedAgent,
        identity: RunIdentity,
        step: int,
        state: State,
        metadata: Mapping[str, JsonValue],
    ) -> None:
        self._hooks = hooks
        self._agent = agent
        self._identity = identity
        self._step = step
        self._metadata = metadata
        self._requested_bytes = 0
        self._failures: list[HookFailure] = []
        self._failure: str | None = None
        self.state = state
        self.requests = HookRequests()
        self.read_transcript: ReadTranscript = no_transcript
        """For the hooks of tool calls."""

    @property
    def ends_run(self) -> bool:
        """A hook stops, blocks, finishes or fails the run."""
        return self._failure is not None or self.requests.ends_run

    @property
    def failure(self) -> str | None:
        """Why the run fails: a hook failed whose plugin says `on_error = "fail"`."""
        return self._failure

    @property
    def effects(self) -> HookEffects | None:
        """What the loop has to apply; None if nothing."""
        effects = effects_of(self.requests, self.state)
        effects = effects.model_copy(update={"failures": tuple(self._failures), "fail": self._failure})
        return None if effects == HookEffects(base=self.state.base) else effects

    def bindings(self, phase: Phase | LifecyclePhase) -> Iterator[PluginBinding]:
        """The plugins with a hook for this phase, in order; none after a hook has failed the run."""
        for binding in self._agent.plugins:
            phases = binding.lifecycle if isinstance(phase, LifecyclePhase) else binding.phases
            if phase in phases and self._failure is None:
                yield binding

    async def run(self, binding: PluginBinding, phase: Phase | LifecyclePhase, make: MakeContext) -> HookRequests:
        """Run one hook and take its requests; a hook that fails has none, but at the gate it blocks its call."""
        plugin, requests, state = self._hooks.plugin(binding.id), HookRequests(), self.state.staged()
        try:
            if plugin is None:
                raise _HookFailed("it is not in this worker's registry; is the registry up to date?")
            await self._hooks.set_up(plugin)
            context = make(
                identity=self._identity,
                metadata=copy.deepcopy(self._metadata),
                agent=self._agent_copy,
                settings=self._hooks.settings(plugin, binding),
                plugin_id=binding.id,
                step=self._step,
                state=state,
                profiles=self._hooks.profiles(),
                deps=self._hooks.dependencies.value,
                requests=requests,
            )
            await self._call(plugin, hook_name(phase), context)
            requests = self._checked(requests, state)
        except Exception as error:  # the boundary: a hook's failure is a value
            why = self._record_failure(binding, phase, error)
            # Fail closed: a gate that failed must not let the call pass.
            blocks = phase is Phase.TOOL_GATE and self._failure is None
            return HookRequests(verdict=Block(reason=why)) if blocks else HookRequests()
        self.state.commit(state)
        self.requests.merge(requests)
        return requests

    async def verdict(self, call: GateCall, strongest: Verdict | None) -> Verdict | None:
        """The strongest of `strongest` and the verdicts of `tool_gate` hooks; after a block, no more hooks run."""
        for binding in self.bindings(Phase.TOOL_GATE):
            if isinstance(strongest, Block):
                break
            make: MakeContext = partial(
                ToolGate,
                call_id=call.call_id,
                tool_name=call.tool_name,
                arguments=copy.deepcopy(call.arguments),
                tool=copy.deepcopy(call.tool),
                resume=call.resume,
                is_first_check=call.is_first_check,
                read_transcript=self.read_transcript,
            )
            verdict = (await self.run(binding, Phase.TOOL_GATE, make)).verdict
            if isinstance(verdict, SetResult):
                verdict = SetResult(result=cut_to_fit(verdict.result))
            strongest = stronger(strongest, verdict)
        return strongest

    async def result(
        self, call: ToolCall, tool: ToolDescriptor | None, result: ToolResult, resume: ToolCallResume | None = None
    ) -> ToolResult:
        """The result as `after_tool_execute` hooks leave it. They do not run for a suspended call."""
        if result.status is ToolStatus.PENDING:
            return result
        for binding in self.bindings(Phase.AFTER_TOOL_EXECUTE):
            # Copies: a hook that changes what it is given must not change what other hooks see or what is recorded.
            make: MakeContext = partial(
                AfterToolExecute,
                call=call.model_copy(deep=True),
                tool=copy.deepcopy(tool),
                resume=copy.deepcopy(resume),
                result=result.model_copy(deep=True),
                read_transcript=self.read_transcript,
            )
            replaced = (await self.run(binding, Phase.AFTER_TOOL_EXECUTE, make)).result
            result = result if replaced is None else cut_to_fit(replaced)
        return result

    @cached_property
    def _agent_copy(self) -> ResolvedAgent:
        """The agent as hooks see it: a hook that changes it must not change the worker's cache."""
        return self._agent.model_copy(deep=True)

    async def _call(self, plugin: AnyPlugin, hook: str, context: HookContext[Any, Any]) -> None:
        try:
            async with asyncio.timeout(plugin.timeout) as deadline:
                await self._hooks.call(plugin, hook, context)
        except TimeoutError as error:
            if deadline.expired():
                raise _HookFailed(f"it took longer than {plugin.timeout:g} s") from error
            raise

    def _checked(self, requests: HookRequests, state: State) -> HookRequests:
        """A validated copy of a hook's requests."""
        try:
            checked, size = checked_requests(requests, state)
        except ValueError as error:
            raise _HookFailed(str(error)) from error
        if self._requested_bytes + size > REQUEST_LIMIT_TOGETHER:
            limit = f"more than {REQUEST_LIMIT_TOGETHER:,} bytes with those of the hooks before it"
            raise _HookFailed(f"its request is too large: {limit}")
        self._requested_bytes += size
        return checked

    def _record_failure(self, binding: PluginBinding, phase: Phase | LifecyclePhase, error: Exception) -> str:
        id = binding.id
        fields = {"plugin": id, "phase": phase.value}
        if isinstance(error, _HookFailed) and not isinstance(error.__cause__, ValueError):  # that may quote a value
            fields["reason"] = str(error)
        log_failure(_logger, "hook failed", error, extra=fields)
        reason = str(error) if isinstance(error, _HookFailed) else described(error)
        reason = reason[:REASON_LIMIT].encode(errors="replace").decode()  # history must be able to hold it
        failure = f"plugin {id!r} failed at {phase.value}: {reason}"
        # The binding decides: a guard must also hold on a worker that does not have its plugin.
        if binding.on_error == "fail":
            self._failure = failure
        else:
            self._failures.append(HookFailure(plugin=id, phase=phase.value, error=reason))
        return failure


class _HookFailed(Exception):
    """A hook that could not run, or broke the rules for hooks; the message says why."""


def checked_requests(requests: HookRequests, state: State, *, counts_state: bool = True) -> tuple[HookRequests, int]:
    """A validated copy of requests and its bytes: Python does not enforce their types, and history must hold them.

    Args:
        counts_state: False for a tool, whose state writes have only their own limit.

    Raises:
        ValueError: they cannot be written as JSON, or are too large.
    """
    try:
        checked = _REQUESTS.validate_json(_REQUESTS.dump_json(requests, warnings="error"))
    except (PydanticSerializationError, ValueError) as error:
        raise ValueError(f"its request cannot be written as JSON: {_in_one_line(error)}") from error
    # Not counted: messages, which are not recorded, and results, which are cut.
    effects = effects_of(checked, state)
    counted = effects if counts_state else effects.model_copy(update={"state": ()})
    size = json_bytes(counted) + len((checked.text or "").encode())
    if not isinstance(checked.verdict, SetResult):
        size += len(to_json(checked.verdict))
    if size > REQUEST_LIMIT:
        raise ValueError(f"its request is too large: {size:,} bytes, and at most {REQUEST_LIMIT:,} are allowed")
    return checked, size


def effects_of(requests: HookRequests, state: State) -> HookEffects:
    """What the loop has to apply."""
    return HookEffects(
        base=state.base,
        state=state.operations,
        context=requests.context,
        forget=requests.forget,
        forget_prefixes=requests.forget_prefixes,
        next_request=requests.request_changes,
        permissions=requests.permissions,
        events=requests.events,
        hold=requests.hold,
        release=requests.release,
        handoff=requests.handoff,
        stop=requests.stop,
        block=requests.block,
        finish=requests.finish,
        retry=requests.retry,
    )


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
