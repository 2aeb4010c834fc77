"""Hooks: the phases of a run that plugins can hook, and what hooks can request."""

from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.context import ContextMessage
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity, RunResult, StopDetail
from wakeful.contract.state import StateOp, StateView


class Phase(StrEnum):
    """The nine phases of a run: the first and the last happen once, the others in every step."""

    RUN_START = "run_start"
    STEP_START = "step_start"
    BEFORE_INFERENCE = "before_inference"
    AFTER_INFERENCE = "after_inference"
    TOOL_GATE = "tool_gate"
    BEFORE_TOOL_EXECUTE = "before_tool_execute"
    AFTER_TOOL_EXECUTE = "after_tool_execute"
    STEP_END = "step_end"
    RUN_END = "run_end"


class LifecyclePhase(StrEnum):
    """The hooks that need an activity of their own: three phases, and an agent's activation and deactivation."""

    ACTIVATE = "activate"
    RUN_START = "run_start"
    STEP_END = "step_end"
    RUN_END = "run_end"
    DEACTIVATE = "deactivate"


class PluginBinding(Wire):
    """A plugin as recorded with the resolved agent: its settings, and which hooks it has."""

    id: str
    settings: Few[dict[str, JsonValue]] = {}
    phases: Few[tuple[Phase, ...]] = ()
    lifecycle: Few[tuple[LifecyclePhase, ...]] = ()
    """Its hooks that need an activity of their own."""
    on_error: Maybe[Literal["fail"]] = None
    """Fail the run if one of its hooks fails; by default a failed hook is skipped."""


class EmittedEvent(Wire):
    """An event that a plugin or a tool emits."""

    plugin: str
    name: str
    payload: JsonValue = None


class HookFailure(Wire):
    """A hook that failed, timed out or is not registered, and was skipped."""

    plugin: str
    phase: str
    error: str


class FinalAnswer(Wire):
    """The answer with which a hook or a tool ends the run as completed."""

    text: Few[str] = ""
    output: Maybe[JsonValue] = None
    """The same as a value of the agent's output type."""


class RequestChanges(Wire):
    """What hooks and tools change in the agent's next request, and in no later one."""

    overrides: Maybe[InferenceOverrides] = None
    excluded: Few[tuple[str, ...]] = ()
    """Tools that it does not include."""
    included: Maybe[tuple[str, ...]] = None
    """The only tools that it includes, minus the excluded ones."""


class Hold(Wire):
    """Work that a run does not end without."""

    key: str
    reason: Few[str] = ""
    """What the run waits for, for people."""


class HookEffects(Wire):
    """What hooks and tools request of the loop; applied as a whole, in order."""

    base: int = 0
    """The revision of the state that they read."""
    state: Few[tuple[StateOp, ...]] = ()
    context: Few[tuple[ContextMessage, ...]] = ()
    """Context messages for the next request."""
    forget: Few[tuple[str, ...]] = ()
    """Keys of context messages to remove."""
    forget_prefixes: Few[tuple[str, ...]] = ()
    """Remove the context messages whose keys start with one of these; all of them, if one is empty."""
    next_request: Maybe[RequestChanges] = None
    permissions: Few[tuple[Rule, ...]] = ()
    """Rules for the rest of the run."""
    events: Few[tuple[EmittedEvent, ...]] = ()
    failures: Few[tuple[HookFailure, ...]] = ()
    hold: Few[tuple[Hold, ...]] = ()
    """Work that is pending: the run does not come to its natural end until all of it is released."""
    release: Few[tuple[str, ...]] = ()
    """Keys of pending work that is done."""
    handoff: Maybe[str] = None
    stop: Maybe[StopDetail] = None
    """End the run as stopped, with this code."""
    block: Maybe[str] = None
    """End the run as blocked, for this reason."""
    finish: Maybe[FinalAnswer] = None
    """End the run as completed, with this answer."""
    retry: Maybe[str] = None
    """Discard the answer and call the model again with this note; only after an inference."""
    fail: Maybe[str] = None
    """A hook failed whose plugin says `on_error="fail"`."""


class HooksInput(Wire):
    """What the activity is given that runs lifecycle hooks."""

    agent: str
    """The digest of the agent."""
    phases: tuple[LifecyclePhase, ...]
    identity: RunIdentity
    step: int = 0
    state: StateView = StateView()
    response: Few[str] = ""
    """The model's last answer."""
    result: Maybe[RunResult] = None
    """How the run ends; only for `run_end`."""
    metadata: Few[dict[str, JsonValue]] = {}
    """Of the run. The activity is local, so history does not record it."""
