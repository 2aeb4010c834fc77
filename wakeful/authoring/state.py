"""State as tools and hooks use it: typed keys, and a view that they read and write.

Writes are recorded as operations, and what one wrote it reads back. Whether they count is not decided here: the loop
applies all operations of one outcome, in the order of calls, or none of them.
"""

import json
import math
from collections.abc import Iterable, Sequence
from datetime import date
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, overload

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.state import (
    STATE_LIMIT,
    StateAction,
    StateKeySpec,
    StateMerge,
    StateOp,
    StateScope,
    StateView,
    applied,
)

T = TypeVar("T")
E = TypeVar("E")
N = TypeVar("N", int, float)

Scope = StateScope | Literal["run", "thread"]
Merge = StateMerge | Literal["exclusive", "add", "append", "union", "max", "min"]


class StateKey(Generic[T]):
    """A key of an agent's state: `StateKey("visits", int, merge="add", default=0)`.

    Agents and plugins declare it in `state`; tools and hooks read and write it with `ctx.state`. Values are kept as
    JSON, so the type is one that pydantic can write and read back.

    Args:
        scope: `run` begins anew with every run, `thread` survives runs and wakings.
        merge: what becomes of writes that are made at the same time. `exclusive`: the later one is refused. `add` of
            numbers, `append` to lists, `union` of sets or lists, `max` and `min` of numbers, texts or dates: all count.
        default: what an unwritten key holds.

    Raises:
        ConfigurationError: the merge does not fit the type, or the default is not of it.
    """

    @overload
    def __init__(
        self, key: str, type: type[T], *, default: T, scope: Scope = StateScope.RUN, merge: Merge = "exclusive"
    ) -> None: ...
    @overload
    def __init__(
        self: "StateKey[Any]", key: str, type: Any, *, default: Any, scope: Scope = "run", merge: Merge = "exclusive"
    ) -> None: ...
    def __init__(
        self, key: str, type: Any, *, default: T, scope: Scope = StateScope.RUN, merge: Merge = "exclusive"
    ) -> None:
        if not key:
            raise ConfigurationError(["a state key needs a name"])
        merged = StateMerge(merge)
        if (wanted := _misfit(merged, type)) is not None:
            problem = f"state key {key!r} is merged by {merged.value!r}, which takes {wanted}, not {_named(type)}"
            raise ConfigurationError([problem])
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(type)
            written = _as_json(self._adapter, default)
        except (PydanticUserError, PydanticSerializationError, TypeError, ValueError) as error:
            raise ConfigurationError([f"state key {key!r}: {_reason(error)}"]) from error
        self._spec = StateKeySpec(key=key, scope=StateScope(scope), merge=merged, default=written)

    @property
    def key(self) -> str:
        return self._spec.key

    @property
    def spec(self) -> StateKeySpec:
        """The key as runs are bound to it."""
        return self._spec

    def read(self, value: JsonValue) -> T:
        """The value that its JSON stands for.

        Raises:
            ValueError: it is of another type: the key meant something else when it was written.
        """
        try:
            return self._adapter.validate_json(to_json(value))
        except ValidationError as error:
            raise ValueError(f"state key {self.key!r} holds what is not of its type: {_reason(error)}") from error

    def written(self, value: T) -> JsonValue:
        """The value as JSON.

        Raises:
            ValueError: it is of another type, or JSON cannot hold it.
        """
        try:
            return _as_json(self._adapter, value)
        except (PydanticSerializationError, TypeError, ValueError) as error:
            raise ValueError(f"state key {self.key!r} cannot hold {value!r}: {_reason(error)}") from error

    def __repr__(self) -> str:
        return f"StateKey({self.key!r}, scope={self.spec.scope.value!r}, merge={self.spec.merge.value!r})"


class State:
    """An agent's state as one tool call or one hook sees it.

    It shows what was there when the work began, and what this one wrote since. Each key is written in the way that it
    declares: `set` for an exclusive one, `add`, `append`, `union`, `max` or `min` for the others.
    """

    def __init__(self, view: StateView | None = None, keys: Sequence[StateKeySpec] = (), *, agent_id: str = "") -> None:
        self._view = view or StateView()
        self._specs = {spec.key: spec for spec in keys}
        self._agent_id = agent_id
        self._written: dict[str, JsonValue] = {}
        self._operations: list[StateOp] = []

    @property
    def base(self) -> int:
        """The revision of what was there at first."""
        return self._view.revision

    @property
    def operations(self) -> tuple[StateOp, ...]:
        """What was written, in order."""
        return tuple(self._operations)

    def declares(self, key: StateKey[Any]) -> bool:
        return key.key in self._specs

    def get(self, key: StateKey[T]) -> T:
        """What the key holds; its default, if nobody has written it.

        Raises:
            ConfigurationError: the agent does not declare the key.
        """
        return key.read(self._value(self._spec(key)))

    def set(self, key: StateKey[T], value: T) -> None:
        """Put this value in the place of the old one."""
        self._write(key, StateAction.SET, key.written(value), by=StateMerge.EXCLUSIVE)

    def add(self, key: StateKey[N], value: N) -> None:
        """Add to a number; a negative one is taken away."""
        self._write(key, StateAction.MERGE, key.written(value), by=StateMerge.ADD)

    def append(self, key: StateKey[list[E]], value: E) -> None:
        """Add an entry to the end of a list."""
        self._write(key, StateAction.MERGE, key.written([value]), by=StateMerge.APPEND)

    def union(self, key: StateKey[T], value: T) -> None:
        """Add those of these entries that are not there yet."""
        self._write(key, StateAction.MERGE, key.written(value), by=StateMerge.UNION)

    def max(self, key: StateKey[T], value: T) -> None:
        """Keep the greater of the two."""
        self._write(key, StateAction.MERGE, key.written(value), by=StateMerge.MAX)

    def min(self, key: StateKey[T], value: T) -> None:
        """Keep the smaller of the two."""
        self._write(key, StateAction.MERGE, key.written(value), by=StateMerge.MIN)

    def reset(self, key: StateKey[Any]) -> None:
        """Back to the default."""
        self._apply(self._spec(key), StateOp(key=key.key, action=StateAction.RESET))

    def fork(self) -> "State":
        """The same state for one who may fail: what is written to it counts once it is taken back."""
        view = StateView(revision=self.base, values={**self._view.values, **self._written})
        return State(view, tuple(self._specs.values()), agent_id=self._agent_id)

    def take(self, other: "State") -> None:
        """Count what was written to a fork."""
        for operation in other.operations:
            self._apply(self._specs[operation.key], operation)

    def _write(self, key: StateKey[Any], action: StateAction, value: JsonValue, *, by: StateMerge) -> None:
        spec = self._spec(key)
        if spec.merge is not by:
            raise ValueError(
                f"state key {spec.key!r} is merged by {spec.merge.value!r}: write it with "
                f"state.{_METHODS[spec.merge]}(), not with state.{_METHODS[by]}()"
            )
        self._apply(spec, StateOp(key=spec.key, action=action, value=value))

    def _apply(self, spec: StateKeySpec, operation: StateOp) -> None:
        value = applied(spec, self._value(spec), operation)
        if operation.action is not StateAction.RESET:
            self._refuse_if_too_large(spec.key, value)
        self._written[spec.key] = value
        self._operations.append(operation)

    def _refuse_if_too_large(self, key: str, value: JsonValue) -> None:
        size = len(_json_bytes({**self._view.values, **self._written, key: value}))
        if size > STATE_LIMIT:
            raise ValueError(
                f"state key {key!r} cannot be written: the state would have {size:,} bytes, and at most "
                f"{STATE_LIMIT:,} fit"
            )

    def _value(self, spec: StateKeySpec) -> JsonValue:
        if spec.key in self._written:
            return self._written[spec.key]
        return self._view.values.get(spec.key, spec.default)

    def _spec(self, key: StateKey[Any]) -> StateKeySpec:
        """The key as the run is bound to it, which may be older than the code."""
        spec = self._specs.get(key.key)
        if spec is None:
            declared = ", ".join(sorted(self._specs)) or "none"
            problem = (
                f"agent {self._agent_id!r} has no state key {key.key!r}: list it in the agent's or a plugin's `state`; "
                f"declared: {declared}"
            )
            raise ConfigurationError([problem])
        return spec


_METHODS = {merge: "set" if merge is StateMerge.EXCLUSIVE else merge.value for merge in StateMerge}


def _as_json(adapter: TypeAdapter[Any], value: Any) -> JsonValue:
    """A copy as JSON; what JSON has no word for, as infinity or half a character, is refused."""
    checked = adapter.validate_python(value)
    if not _is_finite(adapter.dump_python(checked)):  # pydantic writes None for those whose type is Any
        raise ValueError("infinity and NaN are not JSON")
    plain = adapter.dump_python(checked, mode="json")
    copied: JsonValue = json.loads(_json_bytes(plain))
    if isinstance(checked, set | frozenset) and isinstance(copied, list):
        return _sorted(copied)
    return copied


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


def _json_bytes(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


def _sorted(entries: Iterable[JsonValue]) -> list[JsonValue]:
    # A set comes in another order in every process; the same value should be the same JSON.
    return sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))


def _misfit(merge: StateMerge, type: Any) -> str | None:
    """What the merge takes, if that is not this type."""
    kinds = _kinds(type)
    match merge:
        case StateMerge.EXCLUSIVE:
            return None
        case StateMerge.ADD:
            return None if kinds <= {int, float} else "int or float"
        case StateMerge.APPEND:
            return None if kinds == {list} else "a list"
        case StateMerge.UNION:
            return None if kinds in ({set}, {frozenset}, {list}) else "a set or a list"
        case StateMerge.MAX | StateMerge.MIN:
            known = kinds - {NoneType}
            is_comparable = known in ({str}, {date}) or (bool(known) and known <= {int, float})
            return None if is_comparable else "numbers, texts or dates"


def _kinds(type: Any) -> set[Any]:
    """The classes that values of a type are of: those of `list[int] | None` are list and NoneType."""
    origin = get_origin(type)
    if origin is Annotated:
        return _kinds(get_args(type)[0])
    if origin is Union or origin is UnionType:
        return set[Any]().union(*(_kinds(each) for each in get_args(type)))
    return {NoneType if type is None else origin or type}


def _named(type: Any) -> str:
    return str(type) if get_origin(type) else str(getattr(type, "__name__", type))


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else first["msg"]
    return str(error)
