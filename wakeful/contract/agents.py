"""The agent a run is bound to: resolved once, recorded in history, and named by its digest from then on."""

import hashlib
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.budgets import Budget
from wakeful.contract.context import ContextMessage, RecordedContextPolicy
from wakeful.contract.hooks import Moment, Phase, PluginBinding
from wakeful.contract.inference import ModelSettings, OutputSpec
from wakeful.contract.permissions import PermissionPolicy
from wakeful.contract.state import StateKeySpec
from wakeful.contract.stopping import StopCondition
from wakeful.contract.tools import ToolDescriptor

DEFAULT_MAX_ROUNDS = 16
DEFAULT_MAX_CONTINUATIONS = 2
DEFAULT_MAX_DEPTH = 6
DEFAULT_DELEGATE_TIMEOUT_SECONDS = 7 * 24 * 3600.0
DEFAULT_INFERENCE_TIMEOUT_SECONDS = 600.0
DEFAULT_INFERENCE_HEARTBEAT_SECONDS = 30.0


class ToolMode(StrEnum):
    """How the calls of one step run."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


class ModelBinding(Wire):
    """Which model answers: the registered model, its provider, and the name the provider knows it by."""

    id: str
    provider: str
    name: str


class RetryPolicy(Written):
    """What is done when a model call fails: how often it is tried again, and how soon."""

    max_retries: int = Field(default=2, ge=0)
    """How often one model is asked again before the next one of the fallback list is."""
    backoff_base_ms: int = Field(default=500, ge=0)
    """The first wait, doubled each time up to 8 s; 0 means none. What the provider itself asks for is kept to."""
    overloaded_backoff_base_ms: int = Field(default=2000, ge=0)
    """The same for a provider that is overloaded."""
    max_stream_retries: int = Field(default=2, ge=0)
    """How often an answer that broke off half way is gone on with."""
    stream_idle_timeout_secs: float = Field(default=60, gt=0)
    """How long a stream may say nothing before it counts as broken; twice as long for models that think."""
    first_token_timeout_secs: float = Field(default=300, gt=0)
    """How long a provider may take to begin its answer."""


def _is_usual(value: int) -> bool:
    return value == DEFAULT_MAX_CONTINUATIONS


def _is_usual_depth(value: int) -> bool:
    return value == DEFAULT_MAX_DEPTH


def _is_usual_patience(value: float) -> bool:
    return value == DEFAULT_DELEGATE_TIMEOUT_SECONDS


class ResolvedAgent(Wire):
    """Everything of an agent that a run depends on; a run sees one of these from start to end."""

    agent_id: str
    instructions: str = ""
    model: ModelBinding
    tools: Few[tuple[ToolDescriptor, ...]] = ()
    max_rounds: int = DEFAULT_MAX_ROUNDS
    tool_mode: ToolMode = ToolMode.SEQUENTIAL
    context: Maybe[RecordedContextPolicy] = None
    context_messages: Few[tuple[ContextMessage, ...]] = ()
    inference_timeout_seconds: float = DEFAULT_INFERENCE_TIMEOUT_SECONDS
    inference_heartbeat_seconds: float = DEFAULT_INFERENCE_HEARTBEAT_SECONDS
    registry_version: int = 1
    settings: Maybe[ModelSettings] = None
    retry: Maybe[RetryPolicy] = None
    fallbacks: Few[tuple[ModelBinding, ...]] = ()
    """Models to turn to, in this order, when the first one fails."""
    output: Maybe[OutputSpec] = None
    permissions: Maybe[PermissionPolicy] = None
    gates: Few[tuple[str, ...]] = ()
    """Names of the registry's gates that are asked about every call, in this order."""
    max_continuations: Annotated[int, Field(exclude_if=_is_usual)] = DEFAULT_MAX_CONTINUATIONS
    """How often in a run an answer that hit the token limit is gone on with."""
    budget: Maybe[Budget] = None
    """What a run of the agent, with everything it starts, may spend."""
    max_depth: Annotated[int, Field(exclude_if=_is_usual_depth)] = DEFAULT_MAX_DEPTH
    """How many levels of sub-agents there may be below the root of a tree."""
    delegate_timeout_seconds: Annotated[float, Field(exclude_if=_is_usual_patience)] = DEFAULT_DELEGATE_TIMEOUT_SECONDS
    """How long a call waits for the sub-agent it was delegated to."""
    plugins: Few[tuple[PluginBinding, ...]] = ()
    """In the order in which their hooks are asked."""
    state_keys: Few[tuple[StateKeySpec, ...]] = ()
    stop_conditions: Few[tuple[StopCondition, ...]] = ()
    """Checked after every answer, in this order."""

    def hooks_at(self, *moments: Moment) -> tuple[Moment, ...]:
        """Of these moments those for which a plugin of the agent has hooks."""
        wanted = {moment for plugin in self.plugins for moment in plugin.moments}
        return tuple(moment for moment in moments if moment in wanted)

    def has_hooks(self, *phases: Phase) -> bool:
        return any(phase in plugin.phases for plugin in self.plugins for phase in phases)

    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:32]


class ResolveInput(Wire):
    agent_id: str
    revision: int = 1
    """The newest rules of the loop that the asking worker knows."""
    in_task: Few[bool] = False
    """The run is, or is a part of, a background task: it is given the means to cancel it."""


class HistoryBudget(Wire):
    """How long one execution's history may get before the thread continues as new: well inside a second's replay."""

    events: int = 2000
    bytes: int = 2_000_000


class Resolution(Wire):
    """What `resolve_agent` records: the agent, and what the worker found out about the cluster."""

    agent: ResolvedAgent
    search_attributes: bool = False
    """The namespace knows our search attributes; upserting unknown ones would leave the run stuck."""
    budget: HistoryBudget = HistoryBudget()
    revision: int = 1
    """The rules of the loop that the run is pinned to."""
