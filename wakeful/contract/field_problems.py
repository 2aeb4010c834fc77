"""What is wrong with the fields of a value that a person wrote, in words for that person.

Pydantic finds it; here it becomes one line a field, with the value that was given and the name that was probably meant.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from wakeful.contract.suggestions import did_you_mean

SHOWN_VALUE = 60
"""Characters of a value that a message shows."""

FEW_FIELDS = 12
"""A model with at most so many fields has them listed when one is unknown."""

INSTEAD = "instead_of"
"""The attribute of a model that says, by the name of a field that other frameworks have, what to write instead."""

Path = tuple[str | int, ...]

_CLEARER = {
    "sequence_str": "Input should be a list",
    "too_short": "Input should have at least one entry",
    "union_tag_not_found": "Input should have a 'type' that says what it is",
    "invalid-json-value": "Input should be JSON: a str, a number, a bool, None, a list or a dict",
}
"""What is said instead of pydantic's message, by the type of its error."""

_PLAINER = (
    ("an instance of Sequence", "a list"),
    ("a valid list", "a list"),
    ("a valid tuple", "a list"),
    ("a valid dictionary", "a dict"),
    ("a valid string", "a string"),
    ("a valid integer", "an integer"),
    ("a valid number", "a number"),
    ("a valid boolean", "a bool"),
    (", unable to parse string as an integer", ""),
    (", unable to parse string as a number", ""),
)
"""What pydantic says of types, and what people call them."""


_MODEL = re.compile(r"a valid dictionary or instance of (\w+)")


def field_problems(kind: type[BaseModel], given: Mapping[str, Any], error: ValidationError) -> tuple[str, ...]:
    """One line for each field that is wrong. Of the members of a union that were tried, only the first counts."""
    details = error.errors(include_url=False)
    missing = [str(detail["loc"][-1]) for detail in details if detail["type"] == "missing"]
    problems: dict[Path, str] = {}
    for detail in details:
        path = path_in(detail["loc"], given)
        name = str(detail["loc"][-1]) if detail["loc"] else ""
        key = (*path, name) if detail["type"] == "missing" else path
        problems.setdefault(key, _problem(kind, detail, path, missing))
    # Of a union, what is wrong inside of a list says more than that it should have been a text.
    whole = {path[:length] for path in problems for length in range(len(path))}
    return tuple(problem for path, problem in problems.items() if path not in whole or not path)


def path_in(location: Sequence[str | int], given: Any) -> Path:
    """Pydantic's location without the members of unions that it tried, which are not in what was given."""
    path: Path = ()
    for part in location:
        in_mapping = isinstance(given, Mapping) and part in given
        in_list = isinstance(given, list | tuple) and isinstance(part, int) and part < len(given)
        if in_mapping or in_list:
            given, path = given[part], (*path, part)
    return path


def dotted(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def shown(value: object) -> str:
    """A value in a message: itself if it is short and plain, else what it is."""
    if value is None or isinstance(value, str | int | float):
        text = repr(value)
        return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}…"
    if isinstance(value, type):
        return f"the class {value.__name__!r}"
    name, id = type(value).__name__, getattr(value, "id", None)
    return f"{name} {id!r}" if isinstance(id, str) else with_article(name)


def with_article(name: str) -> str:
    """The name with its article."""
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


def _problem(kind: type[BaseModel], detail: ErrorDetails, path: Path, missing: Sequence[str]) -> str:
    name = str(detail["loc"][-1]) if detail["loc"] else ""
    inside = path[:-1] if path and path[-1] == name else path
    around = f" in {dotted(inside)}" if inside else ""
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown field {name!r}{around}{_meant(kind, name, missing, inside)}"
        case "missing":
            return f"{name!r} is missing{around}"
        case _:
            return _of_value(kind, detail, path)


def _meant(kind: type[BaseModel], name: str, missing: Sequence[str], inside: Path) -> str:
    """What the unknown field was meant to be: one that is missing rather than another."""
    for model in _models_at(kind, inside):
        if instead := getattr(model, INSTEAD, {}).get(name):
            return f"; write {instead} instead"
    fields = _fields_at(kind, inside)
    if meant := did_you_mean(name, missing) or did_you_mean(name, fields):
        return meant
    return f"; it has: {', '.join(fields)}" if 0 < len(fields) <= FEW_FIELDS else ""


def _of_value(kind: type[BaseModel], detail: ErrorDetails, path: Path) -> str:
    field, message = dotted(path), detail["msg"].removeprefix("Value error, ")
    message = _CLEARER.get(detail["type"], message)
    if not re.match(r"(Input|String|List|Tuple|Dictionary|Number|Value) should", message):
        return f"{field}: {message}" if field else message
    message = _MODEL.sub(lambda model: with_article(model[1]), message)
    for pydantics, plain in _PLAINER:
        message = message.replace(pydantics, plain)
    options = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected", "")))
    value = detail["input"]
    meant = did_you_mean(value, options) if isinstance(value, str) else ""
    # A secret that was passed by mistake must not reach a log.
    given = with_article(type(value).__name__) if _is_secret(kind, path) else shown(value)
    instead = "" if detail["type"] == "too_short" else f", not {given}"
    if detail["type"] == "string_type" and isinstance(id := getattr(value, "id", None), str):
        meant = f": pass its id, {id!r}"
    return f"{field or 'it'} {message.partition(' ')[2]}{instead}{meant}"


def _fields_at(kind: type[BaseModel], path: Path) -> list[str]:
    """The fields that a value at this place can have."""
    return list(dict.fromkeys(field for model in _models_at(kind, path) for field in model.model_fields))


def _models_at(kind: type[BaseModel], path: Path) -> list[type[BaseModel]]:
    """The models that a value at this place can be; an index, and the key of a mapping, lead no further."""
    models = [kind]
    for part in path:
        fields = [model.model_fields[part] for model in models if isinstance(part, str) and part in model.model_fields]
        if fields:
            models = list(_models_in(field.annotation for field in fields))
    return models


def _models_in(annotations: Iterable[object]) -> Iterable[type[BaseModel]]:
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        else:
            yield from _models_in(get_args(annotation))


def _is_secret(kind: type[BaseModel], path: Path) -> bool:
    return any(model.__name__ == "Secret" for model in _models_at(kind, path))
