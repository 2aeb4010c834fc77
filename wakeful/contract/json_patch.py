"""JSON Patch (RFC 6902): how `activity_delta` and `state_delta` say what has changed."""

import copy
from collections.abc import Sequence

from pydantic import JsonValue


def patched(document: JsonValue, patch: Sequence[JsonValue]) -> JsonValue:
    """A copy of the document with these operations applied, in order.

    Raises:
        ValueError: an operation is malformed, or does not fit the document.
    """
    made = copy.deepcopy(document)
    for number, operation in enumerate(patch, 1):
        try:
            made = _applied(made, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"operation {number} of the patch, {operation!r}, cannot be applied: {error}") from error
    return made


def pointer(*keys: str) -> str:
    """The path of a member of nested objects."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in keys)


def _applied(document: JsonValue, operation: JsonValue) -> JsonValue:
    if not isinstance(operation, dict):
        raise TypeError("a JSON object is required")
    path = _keys(operation["path"])
    match operation.get("op"):
        case "add":
            return _added(document, path, copy.deepcopy(operation["value"]))
        case "remove":
            return _removed(document, path)
        case "replace":
            _found(document, path)
            return _added(_removed(document, path), path, copy.deepcopy(operation["value"]))
        case "move":
            start = _keys(operation["from"])
            value = _found(document, start)
            return _added(_removed(document, start), path, value)
        case "copy":
            return _added(document, path, copy.deepcopy(_found(document, _keys(operation["from"]))))
        case "test":
            if _found(document, path) != operation["value"]:
                raise ValueError("the value is another one")
            return document
        case other:
            raise ValueError(f"there is no operation {other!r}")


def _keys(path: JsonValue) -> list[str]:
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise ValueError(f"{path!r} is not a JSON pointer")
    return [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]


def _found(document: JsonValue, path: list[str]) -> JsonValue:
    for key in path:
        document = document[_place(document, key)] if isinstance(document, list) else _members(document)[key]
    return document


def _added(document: JsonValue, path: list[str], value: JsonValue) -> JsonValue:
    if not path:
        return value
    parent = _found(document, path[:-1])
    if isinstance(parent, list):
        parent.insert(len(parent) if path[-1] == "-" else _place(parent, path[-1], end=1), value)
    else:
        _members(parent)[path[-1]] = value
    return document


def _removed(document: JsonValue, path: list[str]) -> JsonValue:
    if not path:
        return None
    parent = _found(document, path[:-1])
    if isinstance(parent, list):
        del parent[_place(parent, path[-1])]
    else:
        del _members(parent)[path[-1]]
    return document


def _members(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise TypeError("the path leads into a value that has no members")
    return value


def _place(values: list[JsonValue], key: str, *, end: int = 0) -> int:
    """An index of the list, or, for a value that is added, its end."""
    if not key.isdecimal() or int(key) >= len(values) + end:
        raise IndexError(f"the list has no place {key!r}")
    return int(key)
