"""The arguments of the client's verbs: what is wrong with one is a `CallerError` that names it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TypeVar

from wakeful.contract import ids
from wakeful.contract.errors import CallerError, InvalidValue
from wakeful.contract.field_problems import shown
from wakeful.contract.permissions import Rule
from wakeful.contract.settings import RunOptions
from wakeful.contract.suggestions import NO_SYNONYMS, option_problem
from wakeful.permissions.rules import rule_problems

E = TypeVar("E", bound=StrEnum)


@contextmanager
def rejecting_invalid(**arguments: str) -> Iterator[None]:
    """Raise what is wrong with a request as a `CallerError` that names the arguments of the caller.

    Args:
        arguments: the fields of the request that have another name as an argument, and that name.
    """
    try:
        yield
    except InvalidValue as error:
        problems = "; ".join(error.fields)
        for field, argument in arguments.items():
            problems = re.sub(rf"(^|; |in |'){field}\b", rf"\1{argument}", problems)
        raise CallerError(problems) from None


def one_of(kind: type[E], argument: str, given: E | str, *, synonyms: Mapping[str, str] = NO_SYNONYMS) -> E:
    """The option that was given, by its value; `synonyms` are what people write instead of one.

    Raises:
        CallerError: there is no such option.
    """
    check_option(argument, given, kind, synonyms=synonyms)
    return kind(given)


def check_option(
    argument: str, given: object, options: Iterable[str], *, synonyms: Mapping[str, str] = NO_SYNONYMS
) -> None:
    """Raise a `CallerError` if an argument is none of its options."""
    if (problem := option_problem(argument, given, options, synonyms=synonyms)) is not None:
        raise CallerError(problem)


def check_type(argument: str, given: object, kind: type, wanted: str) -> None:
    """Raise a `CallerError` if an argument is of another type; `wanted` says what it should be."""
    if not isinstance(given, kind) or (kind is int and isinstance(given, bool)):
        raise CallerError(f"{argument} should be {wanted}, not {shown(given)}")


def several(given: Any) -> Any:
    """A list as a tuple; a text, and anything else, as it is: the request rejects what it cannot take."""
    return tuple(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else given


def mapped(given: Mapping[str, Any] | None) -> Any:
    """A mapping as a dict; anything else as it is: the request rejects it."""
    return dict(given or {}) if given is None or isinstance(given, Mapping) else given


def run_fields(verb: str, options: RunOptions, kind: Any = RunOptions) -> dict[str, Any]:
    """The options of a verb as fields of a request.

    Raises:
        TypeError: the verb has no such option. The request may have a field of that name, which is not the caller's.
    """
    if unknown := sorted(options.keys() - kind.__optional_keys__):
        raise TypeError(f"{verb}() got an unexpected keyword argument {unknown[0]!r}")
    fields: dict[str, Any] = {**options}
    return {name: mapped(value) if name == "metadata" else several(value) for name, value in fields.items()}


def check_thread_id(thread_id: object) -> None:
    """Raise a `CallerError` if no thread can have this id."""
    if not isinstance(thread_id, str):
        raise CallerError(f"thread_id should be a str, not {shown(thread_id)}")
    if (problem := ids.thread_id_problem(thread_id)) is not None:
        raise CallerError(problem)


def check_rules(rules: Sequence[Rule]) -> None:
    """Raise a `CallerError` if permission rules have patterns that cannot be read."""
    if problems := rule_problems(rules):
        raise CallerError("; ".join(problems))


def check_temporal(temporal: object, taker: str) -> None:
    """Raise a `CallerError` if this is not Temporal's client; `taker` is what takes it."""
    if not hasattr(temporal, "workflow_service"):
        remedy = "await connect() first" if hasattr(temporal, "__await__") else "pass what `await connect()` returns"
        raise CallerError(f"{taker} takes a client of Temporal, not {shown(temporal)}: {remedy}")
