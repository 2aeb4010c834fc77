"""The agent of a run: resolved once, recorded in history, and referred to by its digest from then on."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.budgets import Budget
from wakeful.contract.context import ContextMessage, RecordedContextPolicy
from wakeful.contract.hooks import LifecyclePhase, Phase, PluginBinding
from wakeful.contract.inference import OutputSpec
from wakeful.contract.model_settings import RecordedModelSettings
from wakeful.contract.permissions import PermissionPolicy
from wakeful.contract.remote import RecordedEndpoint
from wakeful.contract.runs import Priority
from wakeful.contract.state import StateKeySpec
from wakeful.contract.stopping import StopCondition
from wakeful.contract.tools import ToolDescriptor

DEFAULT_MAX_ROUNDS = 16
DEFAULT_MAX_CONTINUATIONS = 2
DEFAULT_MAX_DEPTH = 6

DEFAULT_MAX_PARALLEL_CALLS = 50

MAX_CALLS = 256
"""Calls of one answer that are executed; the model reads that the others were not."""
DEFAULT_DELEGATE_TIMEOUT_SECONDS = 7 * 24 * 3600.0
DEFAULT_INFERENCE_TIMEOUT_SECONDS = 600.0
DEFAULT_INFERENCE_HEARTBEAT_SECONDS = 8.0
"""Less than Temporal's workflow task timeout. Workers heartbeat every second; `benchmarks.killed` has the figures."""


class ToolMode(StrEnum):
    """How the calls of one step run."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"


ToolModeName = Literal["sequential", "parallel"]


class ModelBinding(Wire):
    """A registered model: its provider, and the provider's name for it."""

    id: str
    provider: str
    name: str
    task_queue: Maybe[str] = None
    """Of its calls, if that is not the run's."""


DEFAULT_PATIENCE_SECONDS = 24 * 3600.0
DEFAULT_MAX_BACKOFF_SECONDS = 60.0


def _is_usual_model_patience(value: float) -> bool:
    return value == DEFAULT_PATIENCE_SECONDS


def _is_usual_backoff(value: float) -> bool:
    return value == DEFAULT_MAX_BACKOFF_SECONDS


class RetryPolicy(Written):
    """How failed model calls are retried."""

    max_retries: int = Field(default=2, ge=0)
    """Retries of one model before the next fallback is tried."""
    patience_secs: Annotated[float, Field(ge=0, allow_inf_nan=False, exclude_if=_is_usual_model_patience)] = (
        DEFAULT_PATIENCE_SECONDS
    )
    """How long transient failures are retried once every model has had its retries; 0 means no longer. Time without a
    worker does not count."""
    backoff_base_ms: int = Field(default=500, ge=0)
    """The first backoff, doubled each time; 0 means none. A provider's `Retry-After` is honoured."""
    max_backoff_secs: Annotated[float, Field(ge=0, allow_inf_nan=False, exclude_if=_is_usual_backoff)] = (
        DEFAULT_MAX_BACKOFF_SECONDS
    )
    """The longest backoff."""
    overloaded_backoff_base_ms: int = Field(default=2000, ge=0)
    """The same while the provider is overloaded."""
    max_stream_retries: int = Field(default=2, ge=0)
    """How often an interrupted stream is continued at once; further interruptions back off, and use up the patience."""
    stream_idle_timeout_secs: float = Field(default=60, gt=0)
    """How long a stream may be silent before it counts as interrupted; doubled for reasoning models."""
    first_token_timeout_secs: float = Field(default=300, gt=0)
    """How long a provider may take to start its answer."""


def _known_settings(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: setting for name, setting in value.items() if name in RetryPolicy.model_fields}
    return value


RecordedRetryPolicy = Annotated[RetryPolicy, BeforeValidator(_known_settings)]
"""A policy as history records it: an older worker ignores settings that it does not know."""


def _is_usual(value: int) -> bool:
    return value == DEFAULT_MAX_CONTINUATIONS


def _is_usual_depth(value: int) -> bool:
    return value == DEFAULT_MAX_DEPTH


def _is_usual_patience(value: float) -> bool:
    return value == DEFAULT_DELEGATE_TIMEOUT_SECONDS


def _is_usual_parallelism(value: int) -> bool:
    return value == DEFAULT_MAX_PARALLEL_CALLS


class ResolvedAgent(Wire):
    """Everything of an agent that a run depends on; it does not change while the run lasts."""

    agent_id: str
    instructions: str = ""
    model: ModelBinding
    tools: Few[tuple[ToolDescriptor, ...]] = ()
    max_rounds: int = DEFAULT_MAX_ROUNDS
    tool_mode: ToolMode = ToolMode.SEQUENTIAL
    max_parallel_calls: Annotated[int, Field(exclude_if=_is_usual_parallelism)] = DEFAULT_MAX_PARALLEL_CALLS
    """How many calls of one step run at the same time."""
    context: Maybe[RecordedContextPolicy] = None
    context_messages: Few[tuple[ContextMessage, ...]] = ()
    inference_timeout_seconds: float = DEFAULT_INFERENCE_TIMEOUT_SECONDS
    inference_heartbeat_seconds: float = 30.0  # not the default of agents: digests of recorded ones depend on it
    registry_version: int = 1
    settings: Maybe[RecordedModelSettings] = None
    retry: Maybe[RecordedRetryPolicy] = None
    fallbacks: Few[tuple[ModelBinding, ...]] = ()
    """Models to try, in this order, when the first one fails."""
    summary_model: Maybe[ModelBinding] = None
    """The model of the context policy that summarises; absent if that is the agent's own."""
    output: Maybe[OutputSpec] = None
    permissions: Maybe[PermissionPolicy] = None
    gates: Few[tuple[str, ...]] = ()
    """The registry's gates that judge every call, in this order."""
    max_continuations: Annotated[int, Field(exclude_if=_is_usual)] = DEFAULT_MAX_CONTINUATIONS
    """How often a run continues an answer that hit the token limit."""
    budget: Maybe[Budget] = None
    """What a run of the agent and its descendants may spend."""
    max_depth: Annotated[int, Field(exclude_if=_is_usual_depth)] = DEFAULT_MAX_DEPTH
    """How many levels of sub-agents a tree may have."""
    delegate_timeout_seconds: Annotated[float, Field(exclude_if=_is_usual_patience)] = DEFAULT_DELEGATE_TIMEOUT_SECONDS
    """How long a call waits for its sub-agent."""
    expire_after_seconds: Maybe[float] = None
    """How long a thread may be idle before it deletes itself."""
    priority: Maybe[Priority] = None
    """How Temporal orders the tasks of its runs."""
    plugins: Few[tuple[PluginBinding, ...]] = ()
    """In the order in which their hooks run."""
    state_keys: Few[tuple[StateKeySpec, ...]] = ()
    stop_conditions: Few[tuple[StopCondition, ...]] = ()
    """Checked after every answer, in this order."""
    replaceable_tools: Few[tuple[str, ...]] = ()
    """Those of its tools that a frontend tool of the same id replaces."""
    idle_rules: Few[tuple[str, ...]] = ()
    """Its permission rules that match no tool of it or its sub-agents: only a frontend tool may be meant."""
    endpoint: Maybe[RecordedEndpoint] = None
    """Another service runs the agent; `model` only names it."""

    def hooks_at(self, *phases: LifecyclePhase) -> tuple[LifecyclePhase, ...]:
        """Those of these phases that a plugin of the agent hooks."""
        hooked = {phase for plugin in self.plugins for phase in plugin.lifecycle}
        return tuple(phase for phase in phases if phase in hooked)

    def has_hooks(self, *phases: Phase) -> bool:
        return any(phase in plugin.phases for plugin in self.plugins for phase in phases)

    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:32]


class ResolveInput(Wire):
    agent_id: str
    revision: int = 1
    """The newest revision of the loop that the scheduling worker knows."""
    in_task: Few[bool] = False
    """The run is, or belongs to, a background task: it gets the tool that cancels the task."""
    known: Maybe[str] = None
    """The digest of the last agent that this execution has recorded: the same one is not recorded again."""
    in_flight: Few[bool] = False
    """A run in flight needs the agent, for a handoff or as a sub-agent: it waits longer for a worker that has it."""
    tenant: Maybe[str] = None
    user: Maybe[str] = None
    metadata: Few[dict[str, JsonValue]] = {}
    """Of the run: recorded here once, and referred to by its digest from then on."""


class HistoryBudget(Wire):
    """How long an execution's history may get before the thread continues as new; replay stays well under a second.

    The workflow counts what it has caused and seen, and counts rather too much than too little. The upper bounds are
    where Temporal would suggest to continue as new; its limits are more than ten times as far.
    """

    events: int = Field(default=2000, ge=1, le=4000)
    bytes: int = Field(default=2_000_000, ge=1, le=4_000_000)


class WorkerDescription(Wire):
    """What `describe_worker` records: facts about the worker and the cluster, for a run whose agent is not resolved."""

    search_attributes: tuple[str, ...] = ()
    """Those of our search attributes that the namespace has."""
    budget: HistoryBudget = HistoryBudget()
    revision: Few[int] = 0
    """The revision of the loop that the worker has; older releases do not say it."""


class Resolution(Wire):
    """What `resolve_agent` records: the agent, and facts about the worker and the cluster."""

    agent: Maybe[ResolvedAgent] = None
    """Absent if it is the one that the lookup names as known."""
    search_attributes: Few[tuple[str, ...]] = ()
    """Those of our search attributes that the namespace has; one that it lacks would leave the run stuck."""
    unpriced: Few[tuple[str, ...]] = ()
    """The agent's models that have no price: a budget could not limit what they cost."""
    budget: HistoryBudget = HistoryBudget()
    revision: int = 1
    """The revision of the loop that the run is pinned to."""
