"""`@tool`: a typed function that models can call.

The tool's schema comes from the function's types and docstring. The loop and the activities schedule and retry calls as
the tool's descriptor says. `tool_context.py` has what a running call can use.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, Generic, Protocol, Self, overload

import docstring_parser
from pydantic import BaseModel, JsonValue, ValidationError
from typing_extensions import ParamSpec, TypeVar

from wakeful.authoring.lifespan import asked_type
from wakeful.authoring.methods import MethodOf, bound, method_of, unbound_problem, unwrapped
from wakeful.authoring.tool_checks import check_seconds, tool_kind, tool_metadata, tool_name, warn_of_no_description
from wakeful.authoring.tool_context import ToolContext
from wakeful.authoring.tool_retries import DEFAULT_RETRY_DELAY_SECONDS, RetryOptions, ToolRetries
from wakeful.authoring.tool_schema import argument_model, parameters_schema
from wakeful.contract.errors import ConfigurationError, ToolError, ToolErrorKind, validation_problems
from wakeful.contract.tools import (
    DEFAULT_HEARTBEAT_SECONDS,
    DEFAULT_QUEUE_SECONDS,
    DEFAULT_TIMEOUT_SECONDS,
    FOREIGN_HEARTBEAT_SECONDS,
    Effects,
    ToolDescriptor,
    ToolKind,
    ToolKindName,
)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., Any])
F_co = TypeVar("F_co", covariant=True, default=Any)
"""The type of a tool's function. Covariant, which a ParamSpec cannot be: for mypy, a list of several tools is one of
tools, and not of objects."""


@overload
def tool(function: F, /) -> "Tool[F]": ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    heartbeat_timeout: float | None = None,
    category: str | None = None,
    kind: ToolKind | ToolKindName | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    task_queue: str | None = None,
    queue_timeout: float = DEFAULT_QUEUE_SECONDS,
    retries: int | None = None,
    retry_on: type[Exception] | Sequence[type[Exception]] = (),
    retry_delay: float = DEFAULT_RETRY_DELAY_SECONDS,
    local: bool = False,
    background: bool = False,
) -> "_Decorator": ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    idempotent: bool = False,
    read_only: bool = False,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    heartbeat_timeout: float | None = None,
    category: str | None = None,
    kind: ToolKind | ToolKindName | None = None,
    metadata: Mapping[str, JsonValue] | None = None,
    task_queue: str | None = None,
    queue_timeout: float = DEFAULT_QUEUE_SECONDS,
    retries: int | None = None,
    retry_on: type[Exception] | Sequence[type[Exception]] = (),
    retry_delay: float = DEFAULT_RETRY_DELAY_SECONDS,
    local: bool = False,
    background: bool = False,
) -> "Tool | _Decorator":
    """Make a tool from a typed function, sync or async. The model reads its docstring as the description.

    Of a method, the tool is `desk.find`: bound to an instance of its class.

    Args:
        name: the name that the model calls; the function's name by default.
        description: what the model reads instead of the docstring.
        idempotent: the tool may run again after its worker was lost; it uses `ToolContext.idempotency_key`.
        read_only: the tool may run again after its worker was lost; it has no side effects.
        timeout: seconds that one attempt may take.
        heartbeat_timeout: seconds without a heartbeat after which its worker counts as lost: 8, or 30 with a
            `task_queue`. There, 0 is for a program that does not heartbeat: its worker counts as lost after the
            `timeout`.
        category: a label for your own use, such as in gates.
        kind: what it does, for gates and hooks; by default they see what its name suggests.
        metadata: any JSON for your own use. Gates and hooks read it in the descriptor; the model never does.
        task_queue: the task queue of other workers that run it, which may be programs in another language; they run an
            activity of the tool's name (docs/foreign-tools.md).
        queue_timeout: seconds that a call may wait for a worker of its `task_queue`. Then the model reads that it was
            not executed.
        retries: how often Temporal runs a call again, with a backoff and without a model turn, after the tool raised
            `RetryLater` or an error of `retry_on`; 3 by default. With a `task_queue`: after any error that its worker
            does not mark as non-retryable; 0 by default. A local tool has none.
        retry_on: types of errors after which a call is retried, such as `(httpx.TransportError, TimeoutError)`. Only
            for a tool that is idempotent or read-only: it may have taken effect before it raised one.
        retry_delay: seconds before the first retry. It doubles with each, up to a minute.
        local: run it as a local activity, at about half the cost. Only for calls that take milliseconds and can be
            repeated: the run handles no signal meanwhile, and a lost worker means that it runs again.
        background: run each call as a background task. The model gets the task's id at once, continues, and reads the
            result when there is one. Meanwhile the tool can report with `ToolContext.emit`; it cannot suspend.

    Raises:
        ConfigurationError: the function has no schema, or the options contradict each other.
    """
    effects = Effects.IDEMPOTENT if idempotent else Effects.READ_ONLY if read_only else Effects.ONCE
    types = (retry_on,) if isinstance(retry_on, type) else tuple(retry_on)
    retrying = RetryOptions(retries, types, retry_delay, effects, task_queue, local)
    usual_heartbeat = DEFAULT_HEARTBEAT_SECONDS if task_queue is None else FOREIGN_HEARTBEAT_SECONDS
    heartbeat = usual_heartbeat if heartbeat_timeout is None else heartbeat_timeout

    def make(function: Callable[..., Any]) -> Tool:
        method, plain = method_of(function), unwrapped(function)
        id = tool_name(plain, name)
        check_seconds(id, timeout=timeout, queue_timeout=queue_timeout)
        if task_queue is None or heartbeat != 0:
            check_seconds(id, heartbeat_timeout=heartbeat)
        problems = [*retrying.problems(id)]
        if local and (not effects.may_repeat or task_queue is not None):
            problems.append(f"tool {id!r} is local: it must be read_only or idempotent, and cannot have a task_queue")
        if local and background:
            problems.append(f"tool {id!r} is local: it cannot run in the background")
        if problems:
            raise ConfigurationError(problems)
        arguments, context_parameter, hint = argument_model(id, plain, context=ToolContext, is_method=bool(method))
        documented = docstring_parser.parse(inspect.getdoc(plain) or "")
        if description is None and not (documented.description or "").strip():
            warn_of_no_description(id, plain)
        descriptor = ToolDescriptor(
            id=id,
            name=id,
            description=(documented.description or "").strip() if description is None else description,
            parameters=parameters_schema(arguments),
            category=category,
            declared_kind=tool_kind(id, kind),
            metadata=tool_metadata(id, metadata),
            effects=effects,
            timeout_seconds=timeout,
            heartbeat_seconds=heartbeat,
            task_queue=task_queue,
            queue_seconds=queue_timeout if task_queue is not None else None,
            retries=(retries or 0) if task_queue is not None else 0,
            local=local,
            background=background,
        )
        deps_type = asked_type(hint, ToolContext)
        return Tool(descriptor, plain, arguments, context_parameter, deps_type, retrying.resolved, method)

    return make if function is None else make(function)


class _Decorator(Protocol):
    """`@tool(…)`: keeps the signature of what it decorates."""

    def __call__(self, function: F, /) -> "Tool[F]": ...


@dataclass(frozen=True)
class Tool(Generic[F_co]):
    """A function, the descriptor that the language model reads, and the pydantic class that validates its arguments.

    Type checkers see the function's own signature: a `Tool[Callable[[str], int]]` is called with a string, and returns
    an int. A `Tool` alone has any signature.
    """

    descriptor: ToolDescriptor
    function: F_co = field(repr=False)
    arguments: type[BaseModel] = field(repr=False)
    context_parameter: str | None = None
    deps_type: object = field(default=None, repr=False)
    """The type in `ToolContext[…]`: what the registry's lifespan has to yield."""
    retries: ToolRetries = ToolRetries()
    method: MethodOf | None = None
    """Set of a method that is not bound yet: no agent can have it."""

    def __post_init__(self) -> None:
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):  # for help(), Sphinx and tracebacks
            object.__setattr__(self, name, getattr(self.function, name, None))
        object.__setattr__(self, "__wrapped__", self.function)  # for inspect.signature

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
            # By alias alone, as the schema and permission rules name fields: a model may have `populate_by_name`.
            parsed = self.arguments.model_validate({} if arguments is None else arguments, by_alias=True, by_name=False)
        except ValidationError as error:
            problems = "; ".join(validation_problems(error))
            raise ToolError(problems, kind=ToolErrorKind.INVALID_ARGUMENTS) from error
        return {name: getattr(parsed, name) for name in type(parsed).model_fields}

    def __call__(self: "Tool[Callable[P, R]]", *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, for example in a unit test."""
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: "Tool[Callable[Concatenate[S, P], R]]", instance: S, owner: type | None = None
    ) -> "Tool[Callable[P, R]]": ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: object, owner: type | None = None) -> "Tool":
        """Of a method: the tool of this instance, which agents can have. Other tools stay as they are."""
        if self.method is None or (instance is None and self.method == "instance"):
            return self
        unbound: Tool = self
        return replace(unbound, function=bound(unbound.function, self.method, instance, owner), method=None)

    @property
    def problem(self) -> str | None:
        """Why no agent can have this tool: it is a method without its instance."""
        return unbound_problem(f"tool {self.name!r}", self.function, self.method)
