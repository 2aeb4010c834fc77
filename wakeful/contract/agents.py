"""The agent a run is bound to: resolved once, recorded in history, and named by its digest from then on."""

import hashlib
from enum import StrEnum

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.context import ContextMessage, RecordedContextPolicy
from wakeful.contract.tools import ToolDescriptor

DEFAULT_MAX_ROUNDS = 16
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

    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:32]


class ResolveInput(Wire):
    agent_id: str


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
