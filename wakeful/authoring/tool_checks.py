"""What is wrong with a tool before it has a schema: with what is decorated, and with its options."""

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from wakeful.contract.choices import member_named
from wakeful.contract.errors import ConfigurationError, validation_problems
from wakeful.contract.field_problems import shown
from wakeful.contract.tools import ToolKind

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every model provider accepts as the name of a tool."""

_JSON_OBJECT = TypeAdapter(dict[str, JsonValue])


def tool_name(function: object, name: str | None) -> str:
    """The name of the tool that is made of this: its own, or the one that was given.

    Raises:
        ConfigurationError: it is no function, it has no name, or providers would refuse its name.
    """
    if isinstance(own := getattr(function, "name", None), str):
        raise ConfigurationError([f"{own!r} is a {type(function).__name__} already: @tool decorates a function, once"])
    if inspect.isclass(function) or not callable(function):
        raise ConfigurationError([f"@tool decorates a function, and was given {shown(function)}"])
    found = getattr(function, "__name__", "") if name is None else name
    if found in ("", "<lambda>"):
        what = "a lambda" if found else shown(function)
        raise ConfigurationError([f"@tool was given {what}, which has no name: pass one, as in @tool(name='add')"])
    if not NAME.fullmatch(found):
        raise ConfigurationError(
            [f"tool {found!r} has a name that model providers refuse: use 1 to 64 letters, digits, '_' and '-'"]
        )
    return found


def check_seconds(id: str, **options: object) -> None:
    """Raise a `ConfigurationError` if one of these options of a tool is not a number of seconds above 0."""
    problems = [
        f"tool {id!r}: {option} is {shown(value)}; it must be a number of seconds above 0"
        for option, value in options.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0
    ]
    if problems:
        raise ConfigurationError(problems)


def tool_kind(id: str, kind: str | None) -> ToolKind | None:
    """The kind that a tool declares, if it declares one."""
    if kind is None:
        return None
    try:
        return member_named(ToolKind, kind, parameter="kind")
    except ValueError as error:
        raise ConfigurationError([f"tool {id!r}: {error}"]) from None


def tool_metadata(id: str, metadata: Mapping[str, Any] | None) -> dict[str, JsonValue]:
    """The metadata of a tool, as JSON."""
    try:
        return _JSON_OBJECT.validate_python({} if metadata is None else metadata)
    except ValidationError as error:
        problems = "; ".join(validation_problems(error))
        raise ConfigurationError([f"the metadata of tool {id!r} is not JSON: {problems}"]) from None


def warn_of_no_description(id: str, function: Callable[..., Any]) -> None:
    """Warn, at the function's own line, that the model reads no description of the tool."""
    message = f"tool {id!r} has no description for the model to read: write a docstring, or pass description=…"
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:  # an object that can be called
        warnings.warn(message, UserWarning, stacklevel=3)
    else:
        warnings.warn_explicit(message, UserWarning, code.co_filename, code.co_firstlineno)
