"""What a worker opens once and gives to the code of users: a database pool, an HTTP client, settings.

A lifespan is a function that returns an async context manager. A worker enters it before it takes its first task, and
exits it after its last activity has ended. Tools, gates, hooks, dynamic instructions and the factories of providers
receive the value; their annotations say its type, as in `ToolContext[Database]`.
"""

import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, get_args, get_origin, get_type_hints

from typing_extensions import TypeVar

Lifespan = Callable[[], AbstractAsyncContextManager[Any]]
"""Usually a function with `@contextlib.asynccontextmanager`, which yields the value."""

D = TypeVar("D", default=object)
D_co = TypeVar("D_co", covariant=True, default=object)
"""The type of the lifespan's value. A context of any value will do where a parameter has none: `ctx: ToolContext`."""


def first_parameter(function: Callable[..., Any]) -> object:
    """The type of a function's first parameter; None if it says none, or cannot be read."""
    try:
        hints = get_type_hints(function)
        name = next(iter(inspect.signature(function).parameters))
    except (NameError, TypeError, ValueError, StopIteration):
        return None
    return hints.get(name)


def asked_type(hint: object, context: type) -> object:
    """The type of the value that `context[…]` names: `Database` for `ToolContext[Database]`; None if it names none."""
    origin, arguments = get_origin(hint), get_args(hint)
    if not (isinstance(origin, type) and issubclass(origin, context)):
        return None
    return None if arguments[-1] in (Any, object) or isinstance(arguments[-1], TypeVar) else arguments[-1]


def fits(value: object, asked: object) -> bool:
    """Whether the value is of the type that a parameter names, as far as Python can tell."""
    kind = get_origin(asked) or asked
    try:
        return isinstance(value, kind)  # type: ignore[arg-type]  # anything else raises
    except TypeError:  # a protocol, a NewType, a string: only a type checker can tell
        return True


def type_name(kind: object) -> str:
    return getattr(kind, "__name__", None) or str(kind)
