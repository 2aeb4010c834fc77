"""`Agent`: instructions, a model, tools and other agents, with permissions, limits and plugins."""

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from wakeful.authoring.gate import Gate
from wakeful.authoring.instructions import InstructionsFunction
from wakeful.authoring.mcp_server import McpServer
from wakeful.authoring.plugin import Plugin
from wakeful.authoring.state import StateKey
from wakeful.authoring.tool import Tool
from wakeful.contract.agents import (
    DEFAULT_DELEGATE_TIMEOUT_SECONDS,
    DEFAULT_INFERENCE_HEARTBEAT_SECONDS,
    DEFAULT_INFERENCE_TIMEOUT_SECONDS,
    DEFAULT_MAX_CONTINUATIONS,
    DEFAULT_MAX_DEPTH,
    DEFAULT_MAX_PARALLEL_CALLS,
    DEFAULT_MAX_ROUNDS,
    MAX_CALLS,
    RetryPolicy,
    ToolMode,
    ToolModeName,
)
from wakeful.contract.base import Written
from wakeful.contract.budgets import Budget
from wakeful.contract.context import ContextMessage, ContextPolicy
from wakeful.contract.field_problems import shown
from wakeful.contract.mail import Recipients
from wakeful.contract.model_settings import ModelSettings
from wakeful.contract.permissions import PermissionPolicy
from wakeful.contract.remote import Endpoint
from wakeful.contract.runs import LONGEST_EXPIRE_AFTER, Priority
from wakeful.contract.stopping import MaxRounds, StopCondition


class Agent(Written):
    """An agent: plain data, which the registry checks and a run is bound to when it starts."""

    model_config = ConfigDict(arbitrary_types_allowed=True, use_attribute_docstrings=True)

    instead_of: ClassVar[Mapping[str, str]] = {
        "deps_type": "Registry(lifespan=…)",
        "model_settings": "settings=…",
        "output_type": "output=…",
        "retries": "output_repairs=…, or @tool(retries=…),",
        "system_prompt": "instructions=…",
    }
    """What other frameworks have, and what to write here."""

    id: str = Field(min_length=1)
    """Its name, by which requests, other agents and the command line call it."""
    instructions: str | InstructionsFunction = ""
    """The system prompt, or a function that writes it when a run starts."""
    description: str = ""
    """What the agent is for, as other agents and clients read it. By default, they read the beginning of its
    instructions, or the docstring of the function."""
    endpoint: Endpoint | None = None
    """Another service runs the agent: only its id, description, budget and the retries of its calls are ours."""
    model: str = "default"
    """The id of a model in the registry."""
    fallbacks: Sequence[str] = ()
    """Models to fall back to, in this order, when `model` keeps failing."""
    settings: ModelSettings = ModelSettings()
    """Temperature, token limit, reasoning effort. A run can override them."""
    retry: RetryPolicy = RetryPolicy()
    """How often, and with which backoff, a failed model call is retried."""
    output: Any = None
    """The type of the final answer: a pydantic model, any other type, or a JSON schema. None means text."""
    output_repairs: int = Field(default=1, ge=0)
    """How often the model may correct an answer that does not match `output`."""
    max_continuations: int = Field(default=DEFAULT_MAX_CONTINUATIONS, ge=0)
    """How often in a run an answer that hit the token limit is continued."""
    tools: Sequence[Tool | str] = ()
    """`@tool` functions, or names of tools in the registry."""
    mcp: Sequence[McpServer | str] = ()
    """MCP servers, or names of those in the registry. Its runs get the tools that they list when the runs start."""
    allowed_tools: Sequence[str] | None = None
    """Globs over the ids of all its tools, including those of plugins, MCP servers and the runtime. None allows all, []
    none."""
    excluded_tools: Sequence[str] = ()
    """Globs over the same ids. They win over `allowed_tools`."""
    replaceable_tools: Sequence[str] = ()
    """Ids of those of its tools that a request's frontend tool of the same id replaces. Others are not replaced."""
    tool_mode: ToolMode = ToolMode.SEQUENTIAL
    """Whether the calls of one step run one after another or in parallel."""
    max_parallel_calls: int = Field(default=DEFAULT_MAX_PARALLEL_CALLS, ge=1, le=MAX_CALLS)
    """How many calls of one step run at the same time in parallel mode. The others wait for their turn."""
    permissions: PermissionPolicy | None = None
    """Which tool calls are allowed, denied, or need a person's approval. None allows all."""
    gates: Sequence[Gate | str] = ()
    """`@gate` functions, or names of gates in the registry. They check every tool call, in this order."""
    plugins: Sequence[Plugin[Any, Any] | str] = ()
    """Plugins, or ids of plugins in the registry. Their hooks run in this order."""
    active_plugins: Sequence[str] | None = None
    """Ids of those of its plugins that are active. None means all. Of the others, the agent has the state keys, but
    neither hooks nor tools."""
    plugin_settings: Mapping[str, Any] = {}
    """Settings of its plugins, by plugin id: the plugin's settings model, or a mapping."""
    state: Sequence[StateKey[Any]] = ()
    """State keys that its tools use with `ctx.state`, in addition to those that its plugins declare."""
    delegates: Sequence[str] = ()
    """Agents it can call as a tool, by id: `agent_run_<id>` takes a prompt and returns the answer."""
    spawns: Sequence[str] = ()
    """Agents it can start as background tasks, by id, with `spawn_agent`. It reads their results as they end."""
    handoffs: Sequence[str] = ()
    """Agents it can hand the conversation off to, by id. They take over the run from its next step."""
    messages: bool | Sequence[Recipients] = False
    """Whom it can send messages to: `parent`, `children`, `siblings`, `tree`, or `any` thread of the namespace.

    True means `tree`: the agents of the tree that its thread belongs to.
    """
    budget: Budget | None = None
    """What a run and its descendants may spend together. None sets no limit."""
    max_depth: int = Field(default=DEFAULT_MAX_DEPTH, ge=1)
    """How many levels of sub-agents the tree may have under its root."""
    delegate_timeout: float = Field(default=DEFAULT_DELEGATE_TIMEOUT_SECONDS, gt=0, allow_inf_nan=False)
    """Seconds that a call waits for a delegate, including the time that people take to decide."""
    priority: Priority | None = None
    """How Temporal orders the tasks of its runs, in task queues with a backlog; a request can say otherwise."""
    expire_after: float | None = Field(default=None, gt=0, le=LONGEST_EXPIRE_AFTER)
    """Seconds that a thread of the agent may be idle before it deletes itself. None means never."""
    max_rounds: int = Field(default=DEFAULT_MAX_ROUNDS, ge=0)
    """How many rounds of tool calls a run may make: short for `MaxRounds` in `stop_conditions`. 0 means no limit."""
    stop_conditions: Sequence[StopCondition] = ()
    """Conditions that end a run. They are checked after every answer; the first that is met counts. A `MaxRounds` takes
    the place of `max_rounds`."""
    context: ContextPolicy | None = None
    """How much of a long conversation a request includes, and when older messages are summarised. None includes all,
    and summarises what the model rejects."""
    context_messages: Sequence[ContextMessage] = ()
    """Messages that every run adds to its requests, beside the conversation."""
    inference_timeout: float = Field(default=DEFAULT_INFERENCE_TIMEOUT_SECONDS, gt=0)
    """Seconds that one model call may take."""
    inference_heartbeat_timeout: float = Field(default=DEFAULT_INFERENCE_HEARTBEAT_SECONDS, gt=0)
    """Seconds without a heartbeat after which the worker that calls the model counts as lost."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            id: str,
            instructions: str | InstructionsFunction = ...,
            description: str = ...,
            endpoint: Endpoint | None = ...,
            model: str = ...,
            fallbacks: Sequence[str] = ...,
            settings: ModelSettings = ...,
            retry: RetryPolicy = ...,
            output: Any = ...,
            output_repairs: int = ...,
            max_continuations: int = ...,
            tools: Sequence[Tool | str] = ...,
            mcp: Sequence[McpServer | str] = ...,
            allowed_tools: Sequence[str] | None = ...,
            excluded_tools: Sequence[str] = ...,
            replaceable_tools: Sequence[str] = ...,
            tool_mode: ToolMode | ToolModeName = ...,
            max_parallel_calls: int = ...,
            permissions: PermissionPolicy | None = ...,
            gates: Sequence[Gate | str] = ...,
            plugins: Sequence[Plugin[Any, Any] | str] = ...,
            active_plugins: Sequence[str] | None = ...,
            plugin_settings: Mapping[str, Any] = ...,
            state: Sequence[StateKey[Any]] = ...,
            delegates: Sequence[str] = ...,
            spawns: Sequence[str] = ...,
            handoffs: Sequence[str] = ...,
            messages: bool | Sequence[Recipients] = ...,
            budget: Budget | None = ...,
            max_depth: int = ...,
            delegate_timeout: float = ...,
            priority: Priority | None = ...,
            expire_after: float | None = ...,
            max_rounds: int = ...,
            stop_conditions: Sequence[StopCondition] = ...,
            context: ContextPolicy | None = ...,
            context_messages: Sequence[ContextMessage] = ...,
            inference_timeout: float = ...,
            inference_heartbeat_timeout: float = ...,
        ) -> None: ...

    else:  # type checkers know that an agent has no such attribute

        def __getattr__(self, name: str) -> object:
            if name in ("run", "run_sync", "run_stream"):
                remedy = f"run it with a client, as in await client.run({self.id!r}, 'hello')"
                raise AttributeError(f"agent {self.id!r} is data and has no {name!r}: {remedy}", name=name, obj=self)
            return super().__getattr__(name)

    @field_validator("model", mode="before")
    @classmethod
    def _model_is_named(cls, model: object) -> object:
        if not isinstance(model, str):
            remedy = "pass it as Registry(models={'main': …}), and write model='main'"
            raise ValueError(f"{shown(model)} is not the id of a model: {remedy}")
        return model

    @field_validator("delegates", "spawns", "handoffs", mode="before")
    @classmethod
    def _agents_are_named(cls, agents: object) -> object:
        for entry in agents if isinstance(agents, list | tuple) else ():
            if isinstance(entry, Agent):
                raise ValueError(f"{shown(entry)} is an agent: register it, and write its id, {entry.id!r}")
        return agents

    @field_validator("tools", mode="before")
    @classmethod
    def _tools_are_tools(cls, tools: object) -> object:
        for entry in tools if isinstance(tools, list | tuple) else ():
            if inspect.ismethod(entry) and isinstance(entry.__func__, Tool):
                raise ValueError(f"tool {entry.__func__.name!r} is a class method: write @tool above @classmethod")
            if callable(entry) and not isinstance(entry, Tool):
                raise ValueError(f"{getattr(entry, '__name__', entry)!r} is a plain function: decorate it with @tool")
            if isinstance(entry, Tool) and entry.problem is not None:
                raise ValueError(entry.problem)
        return tools

    @field_validator("gates", mode="before")
    @classmethod
    def _gates_are_gates(cls, gates: object) -> object:
        for entry in gates if isinstance(gates, list | tuple) else ():
            if callable(entry) and not isinstance(entry, Gate):
                raise ValueError(f"{getattr(entry, '__name__', entry)!r} is a plain function: decorate it with @gate")
            if isinstance(entry, Gate) and entry.problem is not None:
                raise ValueError(entry.problem)
        return gates

    @field_validator("plugins", mode="before")
    @classmethod
    def _plugins_are_plugins(cls, plugins: object) -> object:
        for entry in plugins if isinstance(plugins, list | tuple) else ():
            if isinstance(entry, type) and issubclass(entry, Plugin):
                raise ValueError(f"{entry.__name__!r} is a class: pass an instance, {entry.__name__}()")
        return plugins

    @field_validator("plugin_settings")
    @classmethod
    def _settings_are_settings(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        for id, given in settings.items():
            if not isinstance(given, Mapping | BaseModel):
                raise ValueError(
                    f"the settings of {id!r} are a {type(given).__name__}: pass a mapping or a pydantic model"
                )
        return settings

    @property
    def written_instructions(self) -> str:
        """The instructions, or the docstring of the function that writes them."""
        return self.instructions if isinstance(self.instructions, str) else inspect.getdoc(self.instructions) or ""

    @property
    def plugin_ids(self) -> tuple[str, ...]:
        """The ids of its plugins."""
        return tuple(entry if isinstance(entry, str) else entry.id for entry in self.plugins)

    @property
    def round_limit(self) -> int:
        """The lowest `MaxRounds` of the stop conditions, or else `max_rounds`; 0 means no limit."""
        spelled_out = (condition.rounds for condition in self.stop_conditions if isinstance(condition, MaxRounds))
        return min(spelled_out, default=self.max_rounds)

    def uses(self, plugin_id: str) -> bool:
        """Whether this plugin of the agent is active."""
        return self.active_plugins is None or plugin_id in self.active_plugins

    @property
    def gate_names(self) -> tuple[str, ...]:
        """The names of its gates."""
        return tuple(entry if isinstance(entry, str) else entry.name for entry in self.gates)

    @property
    def mcp_names(self) -> tuple[str, ...]:
        """The names of its MCP servers."""
        return tuple(entry if isinstance(entry, str) else entry.name for entry in self.mcp)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of its own tools."""
        return tuple(entry if isinstance(entry, str) else entry.name for entry in self.tools)
