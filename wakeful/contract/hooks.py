"""Hooks: the phases of a run in which plugins may act, and what they may ask for."""

from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.context import ContextMessage
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity, RunResult, StopDetail
from wakeful.contract.state import StateOp, StateView


class Phase(StrEnum):
    """When hooks run: the first and the last once a run, the others in every step."""

    RUN_START = "run_start"
    STEP_START = "step_start"
    BEFORE_INFERENCE = "before_inference"
    AFTER_INFERENCE = "after_inference"
    TOOL_GATE = "tool_gate"
    BEFORE_TOOL_EXECUTE = "before_tool_execute"
    AFTER_TOOL_EXECUTE = "after_tool_execute"
    STEP_END = "step_end"
    RUN_END = "run_end"


class Moment(StrEnum):
    """When hooks run that need an activity of their own: three phases, and an agent's coming and going."""

    ACTIVATE = "activate"
    RUN_START = "run_start"
    STEP_END = "step_end"
    RUN_END = "run_end"
    DEACTIVATE = "deactivate"


class PluginBinding(Wire):
    """A plugin of an agent as a run is bound to it: its settings and what it had hooks for."""

    id: str
    settings: Few[dict[str, JsonValue]] = {}
    phases: Few[tuple[Phase, ...]] = ()
    moments: Few[tuple[Moment, ...]] = ()
    """Which of its hooks need an activity of their own."""
    on_error: Maybe[Literal["fail"]] = None
    """A run cannot do without it; absent, a hook that fails is passed over."""


class Emitted(Wire):
    """Something that a plugin or a tool tells watchers."""

    plugin: str
    name: str
    payload: JsonValue = None


class HookReport(Wire):
    """A hook that failed, took too long, or is not there any more, and was passed over."""

    plugin: str
    phase: str
    error: str


class HookEffects(Wire):
    """What hooks, and tools through their context, ask the loop for; folded as a whole, in the order it was asked."""

    base: int = 0
    """The revision of the state that they saw."""
    state: Few[tuple[StateOp, ...]] = ()
    context: Few[tuple[ContextMessage, ...]] = ()
    """What the model is told with its next request."""
    forget: Few[tuple[str, ...]] = ()
    """Keys of context messages that are not told any more."""
    permissions: Few[tuple[Rule, ...]] = ()
    """What the rest of the run allows, asks and denies."""
    events: Few[tuple[Emitted, ...]] = ()
    reports: Few[tuple[HookReport, ...]] = ()
    handoff: Maybe[str] = None
    stop: Maybe[StopDetail] = None
    """End the run as stopped, with this code."""
    block: Maybe[str] = None
    """End the run as blocked, for this reason."""
    retry: Maybe[str] = None
    """Ask the model again, with this note, in place of taking its answer; only after an inference."""
    fail: Maybe[str] = None
    """A hook failed that declares that a run cannot do without it."""


class HooksInput(Wire):
    """What the activity is given that runs the hooks of moments."""

    agent: str
    """The digest of the agent."""
    moments: tuple[Moment, ...]
    identity: RunIdentity
    step: int = 0
    state: StateView = StateView()
    response: Few[str] = ""
    """What the model has said last."""
    result: Maybe[RunResult] = None
    """At the end of the run: how it ends."""
