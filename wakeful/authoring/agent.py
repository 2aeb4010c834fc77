"""What users write as agents: instructions, a model, tools and other agents, and what may be done with them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from wakeful.authoring.gate import Gate
from wakeful.authoring.plugin import Plugin
from wakeful.authoring.state import StateKey
from wakeful.authoring.tool import Tool
from wakeful.contract.agents import (
    DEFAULT_DELEGATE_TIMEOUT_SECONDS,
    DEFAULT_INFERENCE_HEARTBEAT_SECONDS,
    DEFAULT_INFERENCE_TIMEOUT_SECONDS,
    DEFAULT_MAX_CONTINUATIONS,
    DEFAULT_MAX_DEPTH,
    DEFAULT_MAX_ROUNDS,
    RetryPolicy,
    ToolMode,
)
from wakeful.contract.base import Written
from wakeful.contract.budgets import Budget
from wakeful.contract.context import ContextMessage, ContextPolicy
from wakeful.contract.inference import ModelSettings
from wakeful.contract.permissions import PermissionPolicy
from wakeful.contract.stopping import StopCondition


class Agent(Written):
    """An agent by name. `tools` are `@tool` functions, or names of tools that the registry has."""

    model_config = ConfigDict(arbitrary_types_allowed=True, use_attribute_docstrings=True)

    id: str = Field(min_length=1)
    instructions: str = ""
    model: str = "default"
    fallbacks: Sequence[str] = ()
    """Models of the registry to turn to, in this order, when the first one keeps failing."""
    settings: ModelSettings = ModelSettings()
    """How the model is to answer: temperature, token limit, reasoning effort; a run may override it."""
    retry: RetryPolicy = RetryPolicy()
    """How often and how soon a failed model call is tried again."""
    output: Any = None
    """The type of the final answer: a pydantic model or any other type, or a JSON schema; None means text."""
    output_repairs: int = Field(default=1, ge=0)
    """How often the model may correct an answer that is not of that type."""
    max_continuations: int = Field(default=DEFAULT_MAX_CONTINUATIONS, ge=0)
    """How often in a run an answer that hit the token limit is gone on with."""
    tools: Sequence[Tool | str] = ()
    allowed_tools: Sequence[str] | None = None
    """Globs over the ids of all its tools, those of plugins and the runtime's own included; None means all, [] none."""
    excluded_tools: Sequence[str] = ()
    """Globs over the same ids: what they fit it does not have, whatever `allowed_tools` says."""
    tool_mode: ToolMode = ToolMode.SEQUENTIAL
    """Whether the calls of one step run one after another or together."""
    permissions: PermissionPolicy | None = None
    """Which tool calls may be made, which need a person, and which are out of the question; None allows all."""
    gates: Sequence[Gate | str] = ()
    """`@gate` functions, or names of gates that the registry has; they are asked about every call, in this order."""
    plugins: Sequence[Plugin[Any] | str] = ()
    """Plugins, or ids of plugins that the registry has; their hooks run in this order."""
    plugin_settings: Mapping[str, Any] = {}
    """What plugins are to do for this agent, by their ids: a plugin's settings, or a mapping of them."""
    state: Sequence[StateKey[Any]] = ()
    """Keys that its tools read and write with `ctx.state`, beside those that its plugins declare."""
    delegates: Sequence[str] = ()
    """Agents it may call as tools, by id: `agent_run_<id>` takes a prompt and comes back with the answer."""
    spawns: Sequence[str] = ()
    """Agents it may start in the background, by id; it hears of their end, and goes on meanwhile."""
    handoffs: Sequence[str] = ()
    """Agents it may hand the conversation over to, by id: they go on with the run from its next step."""
    messages: bool = False
    """Whether it may write to other agents: its parent, its tasks, and any thread it knows."""
    budget: Budget | None = None
    """What a run, with everything it starts, may spend; None sets no limit."""
    max_depth: int = Field(default=DEFAULT_MAX_DEPTH, ge=1)
    """How many levels of sub-agents there may be below the first agent of a tree."""
    delegate_timeout: float = Field(default=DEFAULT_DELEGATE_TIMEOUT_SECONDS, gt=0, allow_inf_nan=False)
    """Seconds a call waits for the agent it was delegated to, people's decisions included."""
    max_rounds: int = Field(default=DEFAULT_MAX_ROUNDS, ge=0)
    """How many rounds of tool calls a run may make; 0 means no limit."""
    stop_conditions: Sequence[StopCondition] = ()
    """When a run is stopped although its model would go on; looked at after every answer, the first one that is met."""
    context: ContextPolicy | None = None
    """How much of a long conversation the model is shown, and when its past is summarised; None shows everything."""
    context_messages: Sequence[ContextMessage] = ()
    """What every run tells the model besides the conversation, each at its place and with its cooldown."""
    inference_timeout: float = Field(default=DEFAULT_INFERENCE_TIMEOUT_SECONDS, gt=0)
    """Seconds one model call may take."""
    inference_heartbeat_timeout: float = Field(default=DEFAULT_INFERENCE_HEARTBEAT_SECONDS, gt=0)
    """Seconds without a sign of life after which the worker that calls the model counts as lost."""

    @field_validator("tools", mode="before")
    @classmethod
    def _tools_are_tools(cls, tools: object) -> object:
        for entry in tools if isinstance(tools, list | tuple) else ():
            if callable(entry) and not isinstance(entry, Tool):
                raise ValueError(f"{getattr(entry, '__name__', entry)!r} is a plain function: decorate it with @tool")
        return tools

    @field_validator("gates", mode="before")
    @classmethod
    def _gates_are_gates(cls, gates: object) -> object:
        for entry in gates if isinstance(gates, list | tuple) else ():
            if callable(entry) and not isinstance(entry, Gate):
                raise ValueError(f"{getattr(entry, '__name__', entry)!r} is a plain function: decorate it with @gate")
        return gates

    @field_validator("plugins", mode="before")
    @classmethod
    def _plugins_are_plugins(cls, plugins: object) -> object:
        for entry in plugins if isinstance(plugins, list | tuple) else ():
            if isinstance(entry, type) and issubclass(entry, Plugin):
                raise ValueError(f"{entry.__name__!r} is a class: list an instance of it, {entry.__name__}()")
        return plugins

    @field_validator("plugin_settings")
    @classmethod
    def _settings_are_settings(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        for id, given in settings.items():
            if not isinstance(given, Mapping | BaseModel):
                raise ValueError(f"those of {id!r} are a {type(given).__name__}: write a mapping or a pydantic model")
        return settings

    @property
    def plugin_ids(self) -> tuple[str, ...]:
        return tuple(entry if isinstance(entry, str) else entry.id for entry in self.plugins)

    @property
    def gate_names(self) -> tuple[str, ...]:
        return tuple(entry if isinstance(entry, str) else entry.name for entry in self.gates)

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(entry if isinstance(entry, str) else entry.name for entry in self.tools)
