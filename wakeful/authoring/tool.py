"""`@tool`: a typed function that models can call, and `ToolContext`, what a running call can use.

The tool's schema comes from the function's types and docstring. The loop and the activities schedule and retry calls as
the tool's descriptor says.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NoReturn, Protocol, cast, overload

import docstring_parser
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from wakeful.authoring.hook_requests import Requesting
from wakeful.authoring.lifespan import D_co, asked_type
from wakeful.authoring.profiles import Profiles
from wakeful.authoring.state import State
from wakeful.authoring.suspend import SuspendableCall
from wakeful.authoring.tool_schema import argument_model, parameters_schema
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.errors import ConfigurationError, ToolError, ToolErrorKind, validation_problems
from wakeful.contract.mail import AGENT_MESSAGE_LIMIT
from wakeful.contract.runs import RunMode
from wakeful.contract.tools import (
    DEFAULT_HEARTBEAT_SECONDS,
    DEFAULT_QUEUE_SECONDS,
    DEFAULT_TIMEOUT_SECONDS,
    Effects,
    ToolDescriptor,
    ToolKind,
)

ToolFunction = Callable[..., Any]

_JSON_OBJECT = TypeAdapter(dict[str, JsonValue])


@overload
def tool(function: ToolFunction, /) -> "Tool": ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    heartbeat_timeout: float = DEFAULT_HEARTBEAT_SECONDS,
    category: str | None = None,
    kind: ToolKind | Literal["execute", "read", "edit", "search", "other"] | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    task_queue: str | None = None,
    queue_timeout: float = DEFAULT_QUEUE_SECONDS,
    retries: int = 0,
    local: bool = False,
    background: bool = False,
) -> "Callable[[ToolFunction], Tool]": ...
def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    heartbeat_timeout: float = DEFAULT_HEARTBEAT_SECONDS,
    category: str | None = None,
    kind: ToolKind | Literal["execute", "read", "edit", "search", "other"] | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    task_queue: str | None = None,
    queue_timeout: float = DEFAULT_QUEUE_SECONDS,
    retries: int = 0,
    local: bool = False,
    background: bool = False,
) -> "Tool | Callable[[ToolFunction], Tool]":
    """Make a tool from a typed function, sync or async. The model reads its docstring as the description.

    Args:
        name: the name that the model calls; the function's name by default.
        description: what the model reads instead of the docstring.
        idempotent: the tool may run again after its worker was lost; it uses `ToolContext.idempotency_key`.
        read_only: the tool may run again after its worker was lost; it has no side effects.
        timeout: seconds that one attempt may take.
        heartbeat_timeout: seconds without a heartbeat after which its worker counts as lost.
        category: a label for your own use, such as in gates.
        kind: what it does, for gates and hooks; by default they see what its name suggests.
        metadata: any JSON for your own use. Gates and hooks read it in the descriptor; the model never does.
        task_queue: the task queue of other workers that run it, which may be programs in another language; they run an
            activity of the tool's name (docs/foreign-tools.md).
        queue_timeout: seconds that a call may wait for a worker of its `task_queue`. Then the model reads that it was
            not executed.
        retries: how often Temporal runs a call on its `task_queue` again if the tool raised an error that can be
            retried. By default the model reads the error at once.
        local: run it as a local activity, at about half the cost. Only for calls that take milliseconds and can be
            repeated: the run handles no signal meanwhile, and a lost worker means that it runs again.
        background: run each call as a background task. The model gets the task's id at once, continues, and reads the
            result when there is one. Meanwhile the tool can report with `ToolContext.emit`; it cannot suspend.

    Raises:
        ConfigurationError: the function has no schema, or the options contradict each other.
    """

    def make(function: ToolFunction) -> Tool:
        effects = Effects.IDEMPOTENT if idempotent else Effects.READ_ONLY if read_only else Effects.ONCE
        id = name or function.__name__
        if local and (not effects.may_repeat or task_queue is not None):
            raise ConfigurationError(
                [f"tool {id!r} is local: it must be read_only or idempotent, and cannot have a task_queue"]
            )
        if retries and (not effects.may_repeat or task_queue is None):
            raise ConfigurationError(
                [f"tool {id!r} has retries: it must be read_only or idempotent, and have a task_queue"]
            )
        if local and background:
            raise ConfigurationError([f"tool {id!r} is local: it cannot run in the background"])
        arguments, context_parameter, hint = argument_model(id, function, context=ToolContext)
        documented = docstring_parser.parse(inspect.getdoc(function) or "")
        descriptor = ToolDescriptor(
            id=id,
            name=id,
            description=description if description is not None else documented.description or "",
            parameters=parameters_schema(arguments),
            category=category,
            declared_kind=None if kind is None else ToolKind(kind),
            metadata=_json_object(id, metadata or {}),
            effects=effects,
            timeout_seconds=timeout,
            heartbeat_seconds=heartbeat_timeout,
            task_queue=task_queue,
            queue_seconds=queue_timeout if task_queue is not None else None,
            retries=retries,
            local=local,
            background=background,
        )
        return Tool(descriptor, function, arguments, context_parameter, asked_type(hint, ToolContext))

    return make if function is None else make(function)


@dataclass(frozen=True)
class Tool:
    """A function, the descriptor that the language model reads, and the pydantic class that validates its arguments."""

    descriptor: ToolDescriptor
    function: ToolFunction = field(repr=False)
    arguments: type[BaseModel] = field(repr=False)
    context_parameter: str | None = None
    deps_type: object = field(default=None, repr=False)
    """The type in `ToolContext[…]`: what the registry's lifespan has to yield."""

    @property
    def name(self) -> str:
        return self.descriptor.id

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def parse(self, arguments: JsonValue) -> dict[str, Any]:
        """The function's keyword arguments.

        Raises:
            ToolError: an argument is missing, unknown or of the wrong type. The model reads the message.
        """
        try:
            parsed = self.arguments.model_validate({} if arguments is None else arguments)
        except ValidationError as error:
            problems = "; ".join(validation_problems(error))
            raise ToolError(problems, kind=ToolErrorKind.INVALID_ARGUMENTS) from error
        return {name: getattr(parsed, name) for name in type(parsed).model_fields}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function, for example in a unit test."""
        return self.function(*args, **kwargs)


class ProgressSink(Protocol):
    """Receives the progress of a running call."""

    def __call__(self, report: Mapping[str, JsonValue], /) -> None: ...


class EmitSink(Protocol):
    """Receives the events of a background task; returns whether they are delivered."""

    def __call__(self, event_type: str, payload: JsonValue, /) -> bool: ...


@dataclass(frozen=True)
class ToolContext(SuspendableCall[NoReturn], Requesting, Generic[D_co]):
    """What a running call can use. Add a parameter of this type to your tool.

    A tool can request what a hook can: add context, permissions or overrides, stop or finish the run, hand it off. The
    requests are applied together with the call's result, and discarded if the tool raises or suspends; those of a
    background tool have no effect.

    `ToolContext[Database]` says what `deps` is: the value that the registry's lifespan yields.

    `suspend` raises, so the tool stops there. By default it runs again from its beginning after the decision, which it
    finds in `resume_input`.
    """

    idempotency_key: str
    """The same for every attempt of this call, and for no other call. Pass it to the service that you change."""
    deps: D_co = field(default=cast("D_co", None), repr=False)
    """The value of the registry's lifespan; None if it has none."""
    attempt: int = 1
    """Above 1 if a worker was lost during an earlier attempt."""
    resume_input: ToolCallResume | None = None
    """The decision that resumed this call, if it was suspended before. Its `arguments` are the edited ones, if any."""
    suspension_id: str | None = None
    suspension_reason: str | None = None
    state: State = field(default_factory=State, repr=False)
    """The agent's state. Writes are applied when the tool returns, and discarded if it raises or suspends."""
    profiles: Profiles = field(default_factory=Profiles, repr=False)
    """Data that is shared across threads. Sync tools use `profiles.wait`. Writes stay, even if the call fails."""
    progress_sink: ProgressSink = field(default=lambda _report: None, repr=False)
    stream_sink: Callable[[str], None] = field(default=lambda _text: None, repr=False)
    activity_sink: Callable[[str, JsonValue], None] = field(default=lambda _type, _content: None, repr=False)
    patch_sink: Callable[[str, tuple[JsonValue, ...]], None] = field(default=lambda _type, _patch: None, repr=False)
    cancelled_source: Callable[[], bool] = field(default=lambda: False, repr=False)
    emit_sink: EmitSink = field(default=lambda _type, _payload: False, repr=False)
    message_sink: Callable[[str], bool] = field(default=lambda _text: False, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the run has cancelled this call. Async tools are cancelled as well; sync tools should poll this."""
        return self.cancelled_source()

    @property
    def run_mode(self) -> RunMode:
        """Why the call runs: `resume` if a decision has resumed it, or else the mode of its run."""
        return self.identity.mode_of_call(is_resumed=self.resume_input is not None)

    def report(
        self,
        message: str | None = None,
        *,
        progress: float | None = None,
        loaded: float | None = None,
        total: float | None = None,
    ) -> None:
        """Report progress. Live watchers see it; it is not written to history."""
        values = {"message": message, "progress": progress, "loaded": loaded, "total": total}
        self.progress_sink({name: value for name, value in values.items() if value is not None})

    def stream(self, text: str) -> None:
        """Show live watchers a piece of output while the tool works; it is not written to history.

        The model reads only what the tool returns. Watchers see the pieces joined, a few times per second; of more than
        16,000 characters between two heartbeats they see the end.
        """
        self.stream_sink(text)

    def show_activity(self, activity_type: str, content: JsonValue) -> None:
        """Show live watchers an activity of your own, such as a plan or a map, in place of the last one of its type.

        It is not written to history.

        Raises:
            TypeError: the content is not JSON.
            ValueError: the activities of the call have more than 32,000 bytes together.
        """
        self.activity_sink(activity_type, json_copy(activity_type, content))

    def patch_activity(self, activity_type: str, patch: JsonValue) -> None:
        """Change an activity that live watchers see by a JSON Patch (RFC 6902): an operation, or a list of them.

        Raises:
            TypeError: the patch is not JSON.
            ValueError: it does not fit the activity, or that becomes too large.
        """
        operations = json_copy(activity_type, patch)
        self.patch_sink(activity_type, tuple(operations) if isinstance(operations, list) else (operations,))

    def emit(self, event_type: str, payload: JsonValue = None) -> bool:
        """Send an event to the owner of the background task that this call belongs to; the owner's model reads it.

        Events arrive in order, and before the call's result. If an attempt runs again and emits the same events, they
        are delivered once.

        Returns:
            False if the event is not delivered: the call belongs to no background task, or has ended.

        Raises:
            TypeError: the payload is not JSON.
            ValueError: the payload is too large for a model to read.
        """
        return self.emit_sink(event_type, json_copy(event_type, payload))

    def emit_message(self, text: str) -> bool:
        """Send the owner of the background task a message that its model reads as it is, like one of a user.

        Returns:
            False if it is not delivered: the call belongs to no background task, or has ended.

        Raises:
            TypeError: it is not a string of valid unicode.
            ValueError: it is too long for a model to read.
        """
        return self.message_sink(str(json_copy("message", text)))

    def _suspended(self, ticket: SuspensionTicket) -> NoReturn:
        raise SuspendCall(ticket)


def _json_object(id: str, metadata: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        return _JSON_OBJECT.validate_python(dict(metadata))
    except ValidationError as error:
        raise ConfigurationError([f"the metadata of tool {id!r} is not JSON: {error}"]) from error


class SuspendCall(Exception):
    """Raised by `ToolContext.suspend` to stop the tool. Not an error: do not catch it."""

    def __init__(self, ticket: SuspensionTicket) -> None:
        super().__init__(f"the tool call is suspended: {ticket.suspension.message}")
        self.ticket = ticket


def json_copy(event_type: str, payload: JsonValue) -> JsonValue:
    """A copy of an event's payload, so that a tool can change its own afterwards."""
    try:
        written = json.dumps(payload, allow_nan=False, ensure_ascii=False)
        written.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the payload of event {event_type!r} is not JSON: {error}") from error
    if len(written) > AGENT_MESSAGE_LIMIT:
        raise ValueError(
            f"the payload of event {event_type!r} has {len(written):,} characters; at most {AGENT_MESSAGE_LIMIT:,} are "
            "allowed: store large data where a tool can read it, and emit a reference"
        )
    copied: JsonValue = json.loads(written)
    return copied
