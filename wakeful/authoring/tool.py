"""What users write as tools: `@tool` on a typed function, and the context a running call can ask for.

The schema comes from the function's types and docstring. How a call is scheduled, retried and heartbeaten is not
decided here: the loop and the activities do that from the tool's descriptor.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, get_type_hints, overload

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, create_model
from pydantic.errors import PydanticUserError

from wakeful.authoring.profiles import Profiles
from wakeful.authoring.state import State
from wakeful.authoring.suspend import OneCall
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.errors import ConfigurationError, ToolError, ToolErrorKind
from wakeful.contract.mail import AGENT_MESSAGE_LIMIT
from wakeful.contract.tools import DEFAULT_HEARTBEAT_SECONDS, DEFAULT_TIMEOUT_SECONDS, Effects, ToolDescriptor

ToolFunction = Callable[..., Any]


class ProgressSink(Protocol):
    """Where a call's progress goes while it runs."""

    def __call__(self, report: Mapping[str, JsonValue], /) -> None: ...


class EmitSink(Protocol):
    """Where a background task's events go; whether they go anywhere."""

    def __call__(self, event_type: str, payload: JsonValue, /) -> bool: ...


class SuspendCall(Exception):
    """Raised by `ToolContext.suspend`; not an error, and not for catching."""

    def __init__(self, ticket: SuspensionTicket) -> None:
        super().__init__("the tool call is suspended")
        self.ticket = ticket


@dataclass(frozen=True)
class ToolContext(OneCall[NoReturn]):
    """What a running call knows about itself. Ask for it with a parameter of this type.

    `suspend` stops the tool where it is. Unless another `resume_mode` is asked for, it runs again from its beginning
    after the decision, which it finds in `resume_input`.
    """

    idempotency_key: str
    """The same for every attempt at this call, and for no other call: hand it to the service you change."""
    attempt: int = 1
    """Above 1 when a worker was lost under an earlier attempt."""
    resume_input: ToolCallResume | None = None
    """The decision that let this call go on, once it was suspended; `arguments` in it are those that were edited."""
    suspension_id: str | None = None
    suspension_reason: str | None = None
    state: State = field(default_factory=State, repr=False)
    """The agent's state. What is written counts once the tool has returned, and not if it raises or suspends."""
    profiles: Profiles = field(default_factory=Profiles, repr=False)
    """What is known across threads; a sync tool asks with `profiles.wait`. Writes count, whatever comes of the call."""
    progress_sink: ProgressSink = field(default=lambda _report: None, repr=False)
    is_cancelled: Callable[[], bool] = field(default=lambda: False, repr=False)
    emit_sink: EmitSink = field(default=lambda _type, _payload: False, repr=False)
    handoff_sink: Callable[[str], None] = field(default=lambda _agent_id: None, repr=False)

    @property
    def cancelled(self) -> bool:
        """The run wants this call to stop. Async tools are cancelled as well; sync tools look here now and then."""
        return self.is_cancelled()

    def report(
        self,
        message: str | None = None,
        *,
        progress: float | None = None,
        loaded: float | None = None,
        total: float | None = None,
    ) -> None:
        """Say how far the call is. It is shown live and costs nothing in history."""
        said = {"message": message, "progress": progress, "loaded": loaded, "total": total}
        self.progress_sink({name: value for name, value in said.items() if value is not None})

    def emit(self, event_type: str, payload: JsonValue = None) -> bool:
        """Tell the owner of the background task that this call is part of; its model reads it.

        Events arrive in their order, and before the call's result. An attempt that begins again counts its events
        again, and those that were heard already are not heard twice.

        Returns:
            False if there is nobody to tell, because the call is part of no background task, or has ended.

        Raises:
            TypeError: JSON cannot hold the payload.
            ValueError: the payload is too long for a model to read.
        """
        return self.emit_sink(event_type, json_copy(event_type, payload))

    def handoff(self, agent_id: str) -> None:
        """Ask that another agent go on with the run from its next step, once this call has returned.

        The last call wins. A tool that raises or suspends hands nothing over.
        """
        self.handoff_sink(agent_id)

    def _asked(self, ticket: SuspensionTicket) -> NoReturn:
        raise SuspendCall(ticket)


@dataclass(frozen=True)
class Tool:
    """A function with the descriptor a model is shown and the model its arguments are checked against."""

    descriptor: ToolDescriptor
    function: ToolFunction = field(repr=False)
    arguments: type[BaseModel] = field(repr=False)
    context_parameter: str | None = None

    @property
    def name(self) -> str:
        return self.descriptor.id

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def parse(self, arguments: JsonValue) -> dict[str, Any]:
        """The function's keyword arguments.

        Raises:
            ToolError: an argument is missing, unknown or of the wrong type; the message names it.
        """
        try:
            parsed = self.arguments.model_validate({} if arguments is None else arguments)
        except ValidationError as error:
            wrong = "; ".join(_in_words(detail["loc"], detail["msg"]) for detail in error.errors())
            raise ToolError(wrong, kind=ToolErrorKind.INVALID_ARGUMENTS) from error
        return {name: getattr(parsed, name) for name in type(parsed).model_fields}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function, as a unit test would."""
        return self.function(*args, **kwargs)


@overload
def tool(function: ToolFunction, /) -> Tool: ...
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
    task_queue: str | None = None,
    local: bool = False,
    background: bool = False,
) -> Callable[[ToolFunction], Tool]: ...
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
    task_queue: str | None = None,
    local: bool = False,
    background: bool = False,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a tool of a typed function, sync or async; its docstring tells the model what it does.

    Args:
        idempotent: the tool may run again after its worker died; it uses `ToolContext.idempotency_key`.
        read_only: the tool may run again after its worker died; it changes nothing.
        timeout: seconds one attempt may take.
        heartbeat_timeout: seconds without a sign of life after which its worker counts as lost.
        task_queue: run it on another worker's queue.
        local: run it inside the workflow's own task, at about half the cost. Only for calls of milliseconds that may be
            repeated: meanwhile the run hears no signal, and a worker that dies runs it again.
        background: a call is a background task: the model is given its id at once and goes on, and reads the result
            when there is one. Meanwhile the tool may tell it more with `ToolContext.emit`; it cannot suspend.

    Raises:
        ConfigurationError: the function cannot be described to a model.
    """

    def make(function: ToolFunction) -> Tool:
        effects = Effects.IDEMPOTENT if idempotent else Effects.READ_ONLY if read_only else Effects.ONCE
        id = name or function.__name__
        if local and (not effects.may_repeat or task_queue is not None):
            problem = f"tool {id!r} is local, so it must be read_only or idempotent and have no task_queue of its own"
            raise ConfigurationError([problem])
        if local and background:
            problem = f"tool {id!r} is local, so it cannot run in the background: a local call is waited for"
            raise ConfigurationError([problem])
        arguments, context_parameter = _argument_model(id, function)
        documented = docstring_parser.parse(inspect.getdoc(function) or "")
        descriptor = ToolDescriptor(
            id=id,
            name=id,
            description=description if description is not None else documented.description or "",
            parameters=tidy(arguments.model_json_schema()),
            category=category,
            effects=effects,
            timeout_seconds=timeout,
            heartbeat_seconds=heartbeat_timeout,
            task_queue=task_queue,
            local=local,
            background=background,
        )
        return Tool(descriptor, function, arguments, context_parameter)

    return make if function is None else make(function)


def _argument_model(tool_id: str, function: ToolFunction) -> tuple[type[BaseModel], str | None]:
    """A model of the function's parameters, and the name of the one that takes the context."""
    hints = get_type_hints(function, include_extras=True)
    described = {p.arg_name: p.description for p in docstring_parser.parse(inspect.getdoc(function) or "").params}
    fields: dict[str, Any] = {}
    context_parameter, problems = None, []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            problems.append(f"tool {tool_id!r}: parameter {parameter} cannot be described; name every parameter")
        elif parameter.name not in hints:
            problems.append(f"tool {tool_id!r}: parameter {parameter.name!r} needs a type")
        elif hints[parameter.name] is ToolContext:
            context_parameter = parameter.name
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            info = Field(default=default, description=described.get(parameter.name))
            fields[parameter.name] = (hints[parameter.name], info)
    if problems:
        raise ConfigurationError(problems)
    try:
        model = create_model(f"{tool_id}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except PydanticUserError as error:
        raise ConfigurationError([f"tool {tool_id!r}: its parameters have no JSON schema: {error.message}"]) from error
    return model, context_parameter


def json_copy(event_type: str, payload: JsonValue) -> JsonValue:
    """The payload as it is now: the tool may change its own while it is on its way."""
    try:
        written = json.dumps(payload, allow_nan=False, ensure_ascii=False)
        written.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the payload of event {event_type!r} is nothing that JSON can hold: {error}") from error
    if len(written) > AGENT_MESSAGE_LIMIT:
        raise ValueError(
            f"the payload of event {event_type!r} has {len(written):,} characters, "
            f"and at most {AGENT_MESSAGE_LIMIT:,} fit: "
            "put large things where a tool can read them"
        )
    copied: JsonValue = json.loads(written)
    return copied


def _in_words(location: tuple[int | str, ...], message: str) -> str:
    path = ".".join(str(part) for part in location)
    return f"{path}: {message}" if path else message


def tidy(schema: dict[str, Any]) -> dict[str, JsonValue]:
    """The schema inlined and without noise. A type that contains itself keeps its `$defs`."""
    definitions = schema.get("$defs", {})
    inlined = _inline({key: value for key, value in schema.items() if key != "$defs"}, definitions, ())
    if "$ref" in str(inlined):
        inlined["$defs"] = {name: _inline(body, definitions, (name,)) for name, body in definitions.items()}
    return inlined  # type: ignore[no-any-return]  # what pydantic makes is JSON


def _inline(node: Any, definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and name not in inside:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**_inline(definitions[name], definitions, (*inside, name)), **_inline(beside, definitions, inside)}
    return {
        key: _inline_properties(value, definitions, inside)
        if key == "properties"
        else _inline(value, definitions, inside)
        for key, value in node.items()
        if key != "title"
    }


def _inline_properties(properties: dict[str, Any], definitions: dict[str, Any], inside: tuple[str, ...]) -> Any:
    # A property may itself be called "title", so names are kept here and only their schemas are tidied.
    return {name: _inline(schema, definitions, inside) for name, schema in properties.items()}
