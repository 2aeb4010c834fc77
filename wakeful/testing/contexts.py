"""What tools and gates are given, for unit tests that need no server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Generic, Literal, Union, cast, get_args, get_origin

from pydantic import JsonValue
from typing_extensions import TypeVar

from wakeful.authoring.gate import GateCall
from wakeful.authoring.lifespan import D_co, type_name
from wakeful.authoring.profiles import Profiles
from wakeful.authoring.state import State, StateKey
from wakeful.authoring.tool import Tool
from wakeful.authoring.tool_context import ToolContext
from wakeful.contract.decisions import DecisionAction, ToolCallResume
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.field_problems import with_article
from wakeful.contract.json_patch import patched
from wakeful.contract.runs import RunIdentity, RunMode
from wakeful.contract.state import StateView

D = TypeVar("D", default=None)

Resume = ToolCallResume | DecisionAction | Literal["resume", "cancel"]
"""A decision about a suspended call, or only its action."""


@dataclass(frozen=True)
class Recorded:
    """What a tool has shown and sent while it ran."""

    progress: list[Mapping[str, JsonValue]] = field(default_factory=list)
    """Its reports, in order."""
    output: list[str] = field(default_factory=list)
    """The pieces that it has streamed."""
    activities: dict[str, JsonValue] = field(default_factory=dict)
    """What watchers see of each of its activities, by type."""
    events: list[tuple[str, JsonValue]] = field(default_factory=list)
    """The type and the payload of each event that it has emitted."""
    messages: list[str] = field(default_factory=list)
    """What it has sent with `emit_message`."""
    checkpoints: list[JsonValue] = field(default_factory=list)
    """Its checkpoints, in order."""

    def patch(self, activity_type: str, operations: tuple[JsonValue, ...]) -> None:
        self.activities[activity_type] = patched(self.activities.get(activity_type, {}), operations)

    def emit(self, event_type: str, payload: JsonValue) -> bool:
        self.events.append((event_type, payload))
        return True

    def send(self, text: str) -> bool:
        self.messages.append(text)
        return True


@dataclass(frozen=True)
class RecordingToolContext(ToolContext[D_co], Generic[D_co]):
    """A `ToolContext` that remembers what its tool does; `requests` and `state` have what it requests and writes."""

    recorded: Recorded = field(default_factory=Recorded, repr=False, kw_only=True)


def make_tool_context(
    tool: Tool | str = "tool",
    arguments: JsonValue = None,
    *,
    deps: D | None = None,
    state: Mapping[StateKey[Any], object] | None = None,
    profiles: Profiles | None = None,
    resume_input: Resume | None = None,
    attempt: int = 1,
    last_checkpoint: JsonValue = None,
    user: str | None = None,
    tenant: str | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    identity: RunIdentity | None = None,
    cancelled: bool | Callable[[], bool] = False,
) -> RecordingToolContext[D]:
    """A context for calling a tool's function in a unit test.

    Args:
        tool: the tool, or its name.
        arguments: those of the call, for a tool that reads them from its context or suspends.
        deps: what the registry's lifespan would yield; required for a tool that takes a `ToolContext[…]` of a type.
        state: the keys that the agent declares, with their values.
        profiles: such as `Profiles(SqliteProfileStore(), [key])`.
        resume_input: the decision that resumes the call, or only its action.
        attempt: above 1, a worker was lost during the attempt before, or the tool is retried.
        last_checkpoint: of the attempts before.
        user: for whom the run acts.
        tenant: the tenant that the thread belongs to.
        metadata: of the message that began the run.
        identity: of the run, instead of one with this user and tenant: see `make_identity`.
        cancelled: whether the run has cancelled the call, or a function that says so.

    Raises:
        ConfigurationError: the tool takes a value of the lifespan, and `deps` is missing.
    """
    if isinstance(tool, Tool) and deps is None and not _takes_none(tool.deps_type):
        raise ConfigurationError([f"tool {tool.name!r} takes {with_article(type_name(tool.deps_type))}: pass deps=…"])
    identity, recorded = identity or make_identity(user=user, tenant=tenant), Recorded()
    return RecordingToolContext(
        identity=identity,
        call_id=CALL_ID,
        tool_name=_name(tool),
        arguments=arguments,
        idempotency_key=f"{identity.thread_id}/{CALL_ID}",
        deps=cast("D", deps),  # a tool without a lifespan has None, too
        attempt=attempt,
        last_checkpoint=last_checkpoint,
        resume_input=_resume(resume_input),
        state=_state(state or {}, identity.agent_id),
        profiles=profiles or Profiles(),
        metadata=dict(metadata or {}),
        progress_sink=recorded.progress.append,
        stream_sink=recorded.output.append,
        activity_sink=recorded.activities.__setitem__,
        patch_sink=recorded.patch,
        cancelled_source=cancelled if callable(cancelled) else lambda: cancelled,
        emit_sink=recorded.emit,
        message_sink=recorded.send,
        checkpoint_sink=recorded.checkpoints.append,
        recorded=recorded,
    )


def make_gate_call(
    tool: Tool | str,
    arguments: JsonValue = None,
    *,
    deps: D | None = None,
    resume: Resume | None = None,
    is_first_check: bool = True,
    user: str | None = None,
    tenant: str | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    identity: RunIdentity | None = None,
) -> GateCall[D]:
    """A tool call for calling a gate's function in a unit test; the arguments are those of `make_tool_context`."""
    return GateCall(
        identity=identity or make_identity(user=user, tenant=tenant),
        call_id=CALL_ID,
        tool_name=_name(tool),
        arguments=arguments,
        tool=tool.descriptor if isinstance(tool, Tool) else None,
        resume=_resume(resume),
        is_first_check=is_first_check,
        deps=cast("D", deps),  # a gate without a lifespan has None, too
        metadata=dict(metadata or {}),
    )


def make_identity(
    *,
    agent_id: str = "agent",
    thread_id: str = "thread",
    user: str | None = None,
    tenant: str | None = None,
    run_mode: RunMode | str = RunMode.FOREGROUND,
) -> RunIdentity:
    """The identity of a run, for the contexts of tools, gates and hooks."""
    return RunIdentity(
        thread_id=thread_id, run_id="run", agent_id=agent_id, user=user, tenant=tenant, run_mode=RunMode(run_mode)
    )


CALL_ID = "1-1"


def _name(tool: Tool | str) -> str:
    return tool.name if isinstance(tool, Tool) else tool


def _takes_none(deps_type: object) -> bool:
    if get_origin(deps_type) in (Union, UnionType):
        return NoneType in get_args(deps_type)
    return deps_type in (None, NoneType)


def _resume(given: Resume | None) -> ToolCallResume | None:
    return given if given is None or isinstance(given, ToolCallResume) else ToolCallResume(action=DecisionAction(given))


def _state(values: Mapping[StateKey[Any], object], agent_id: str) -> State:
    view = StateView(values={key.key: key.written(value) for key, value in values.items()})
    return State(view, tuple(key.spec for key in values), agent_id=agent_id)
