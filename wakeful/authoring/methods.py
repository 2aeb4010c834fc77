"""Tools and gates that are methods of a class: which functions are methods, and how they are bound."""

import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, Literal

MethodOf = Literal["instance", "class"]
"""What the first parameter of an unbound method stands for."""


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside `@classmethod` or `@staticmethod`, if a decorator was written above one of them."""
    return function.__func__ if isinstance(function, classmethod | staticmethod) else function


def method_of(function: Callable[..., Any]) -> MethodOf | None:
    """What has to be bound to the function before it can be called; None of one that is not a method, or is bound.

    Decorators run before the class exists: what is known of it is the function's qualified name, and that its first
    parameter is called `self`.
    """
    if isinstance(function, classmethod):
        return "class"
    if isinstance(function, staticmethod) or inspect.ismethod(function):
        return None
    scope = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not scope or scope.endswith("<locals>"):
        return None
    first = next(iter(inspect.signature(function).parameters), None)
    match first:
        case "self":
            return "instance"
        case "cls":
            return "class"
        case _:
            return None


def bound(function: Callable[..., Any], method: MethodOf, instance: object, owner: type | None) -> Callable[..., Any]:
    """The function as a method of the instance, or of its class."""
    target = instance if method == "instance" else owner or type(instance)
    return MethodType(function, target)


def unbound_problem(what: str, function: object, method: MethodOf | None) -> str | None:
    """What is wrong with a method that is not bound, and how to bind it; None of anything else."""
    if method is None:
        return None
    scope, _, name = getattr(function, "__qualname__", "").rpartition(".")
    owner = scope.rpartition(".")[2]
    bound = f"{owner}(…).{name}" if method == "instance" else f"{owner}.{name}"
    return f"{what} is a method of {owner} that is not bound to its {method}: pass {bound}"
