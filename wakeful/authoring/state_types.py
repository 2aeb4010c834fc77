"""Which Python types a state key can have, and their values as JSON."""

import json
import math
from collections.abc import Iterable
from datetime import date
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import JsonValue, TypeAdapter

from wakeful.contract.state import StateMerge


def type_problem(merge: StateMerge, type: Any) -> str | None:
    """What is wrong with a type for this merge strategy."""
    accepted = _accepted(merge, _classes(type))
    return None if accepted is None else f"merge {merge.value!r} needs {accepted}, not {_type_name(type)}"


def to_json_value(adapter: TypeAdapter[Any], value: Any) -> JsonValue:
    """A copy of the value as JSON.

    Raises:
        ValueError: it is not of the type, or JSON cannot represent it, such as infinity or a lone surrogate.
    """
    checked = adapter.validate_python(value)
    if not _is_finite(adapter.dump_python(checked)):  # pydantic writes null for those whose type is Any
        raise ValueError("infinity and NaN are not JSON")
    plain = adapter.dump_python(checked, mode="json")
    copied: JsonValue = json.loads(json_bytes(plain))
    if isinstance(checked, set | frozenset) and isinstance(copied, list):
        return _sorted(copied)
    return copied


def json_bytes(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


def _accepted(merge: StateMerge, classes: set[Any]) -> str | None:
    """The types that the merge accepts, if it does not accept these."""
    match merge:
        case StateMerge.EXCLUSIVE:
            return None
        case StateMerge.ADD:
            return None if classes <= {int, float} else "int or float"
        case StateMerge.APPEND:
            return None if classes == {list} else "a list"
        case StateMerge.UNION:
            return None if classes in ({set}, {frozenset}, {list}) else "a set or a list"
        case StateMerge.MAX | StateMerge.MIN:
            known = classes - {NoneType}
            is_comparable = known in ({str}, {date}) or (bool(known) and known <= {int, float})
            return None if is_comparable else "numbers, strings or dates"


def _classes(type: Any) -> set[Any]:
    """The classes of a type's values: `list[int] | None` has list and NoneType."""
    origin = get_origin(type)
    if origin is Annotated:
        return _classes(get_args(type)[0])
    if origin is Union or origin is UnionType:
        return set[Any]().union(*(_classes(each) for each in get_args(type)))
    return {NoneType if type is None else origin or type}


def _type_name(type: Any) -> str:
    return str(type) if get_origin(type) else str(getattr(type, "__name__", type))


def _is_finite(value: object) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list() | tuple() | set() | frozenset():
            return all(map(_is_finite, value))
        case _:
            return True


def _sorted(entries: Iterable[JsonValue]) -> list[JsonValue]:
    # The order of a set differs from process to process; equal values must give equal JSON.
    return sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
