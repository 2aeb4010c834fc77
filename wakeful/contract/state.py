"""Agent state: keys with a scope and a merge strategy, written by operations."""

import json
import math
from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire

STATE_LIMIT = 400_000
"""Bytes of JSON of a thread's whole state: every inference and tool call that reads state is sent all of it."""


class StateScope(StrEnum):
    RUN = "run"
    """Reset when a run starts."""
    THREAD = "thread"
    """Kept for as long as the thread lives, across runs, executions and wakes."""


StateScopeName = Literal["run", "thread"]


class StateMerge(StrEnum):
    """How concurrent writes are merged."""

    EXCLUSIVE = "exclusive"
    """One writer at a time: of two that read the same value, the later write is rejected."""
    ADD = "add"
    APPEND = "append"
    UNION = "union"
    MAX = "max"
    MIN = "min"


StateMergeName = Literal["exclusive", "add", "append", "union", "max", "min"]


class StateKeySpec(Wire):
    """A state key, as recorded with the resolved agent."""

    key: str
    scope: StateScope = StateScope.RUN
    merge: StateMerge = StateMerge.EXCLUSIVE
    default: Maybe[JsonValue] = None


class StateAction(StrEnum):
    SET = "set"
    """Replace the value; only for exclusive keys."""
    MERGE = "merge"
    """Merge into the value with the key's strategy."""
    RESET = "reset"
    """Restore the default."""


class StateOp(Wire):
    """One write."""

    key: str
    action: StateAction
    value: Maybe[JsonValue] = None


class StateView(Wire):
    """State as tools and hooks read it; keys that were never written are absent."""

    revision: int = 0
    values: Few[dict[str, JsonValue]] = {}


def applied(spec: StateKeySpec, value: JsonValue, op: StateOp) -> JsonValue:
    """A key's value after a write.

    Raises:
        ValueError: the write does not fit the key.
    """
    match op.action:
        case StateAction.RESET:
            return spec.default
        case StateAction.SET if spec.merge is StateMerge.EXCLUSIVE:
            return op.value
        case StateAction.MERGE if spec.merge is not StateMerge.EXCLUSIVE:
            return _merged(spec, spec.default if value is None else value, op.value)
        case _:
            raise ValueError(f"key {spec.key!r} is merged by {spec.merge.value}, so it cannot be {op.action.value}")


def _merged(spec: StateKeySpec, value: JsonValue, new: JsonValue) -> JsonValue:
    match spec.merge, value, new:
        case StateMerge.ADD, int() | float() | None, int() | float():
            total = (value or 0) + new
            if not math.isfinite(total):
                raise ValueError(f"key {spec.key!r} would be larger than a number can be")
            return total
        case StateMerge.APPEND, list() | None, list():
            return [*(value or ()), *new]
        case StateMerge.UNION, list() | None, list():
            union: dict[str, JsonValue] = {}
            for entry in (*(value or ()), *new):
                union.setdefault(json.dumps(entry, sort_keys=True), entry)
            return list(union.values())
        case ((StateMerge.MAX | StateMerge.MIN), None, int() | float() | str()):
            return new
        case StateMerge.MAX, int() | float(), int() | float():
            return max(value, new)
        case StateMerge.MIN, int() | float(), int() | float():
            return min(value, new)
        case StateMerge.MAX, str(), str():
            return max(value, new)
        case StateMerge.MIN, str(), str():
            return min(value, new)
        case _:
            raise ValueError(f"{new!r} cannot be merged into key {spec.key!r} by {spec.merge.value}")
