"""State as tools and hooks use it: typed keys, and a view that they read and write.

Writes are recorded as operations, and later reads in the same call or hook see them. The loop applies all operations of
one outcome, in the order of the calls, or none of them.
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, overload

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

from wakeful.authoring.state_types import json_bytes, to_json_value, type_problem
from wakeful.contract.choices import member_named
from wakeful.contract.errors import ConfigurationError, validation_problems
from wakeful.contract.limits import NAME_LENGTH, cut, depth_problem
from wakeful.contract.state import (
    STATE_LIMIT,
    StateAction,
    StateKeySpec,
    StateMerge,
    StateMergeName,
    StateOp,
    StateScope,
    StateScopeName,
    StateView,
    applied,
)

T = TypeVar("T")
E = TypeVar("E")
N = TypeVar("N", int, float)

Scope = StateScope | StateScopeName
Merge = StateMerge | StateMergeName

RESERVED_PREFIX = "__"
"""The prefix of the runtime's own state keys."""


class StateKey(Generic[T]):
    """A key of an agent's state: `StateKey("visits", int, merge="add", default=0)`.

    Agents and plugins declare it in `state`; tools and hooks read and write it with `ctx.state`. Values are stored as
    JSON, so use a type that pydantic can serialize and read back.

    Args:
        scope: `run` is reset when a run starts; `thread` lasts as long as the thread.
        merge: how concurrent writes are merged. `exclusive`: the later one is rejected. `add` for numbers, `append` for
            lists, `union` for sets or lists, `max` and `min` for numbers, strings or dates: all of them count.
        default: the value of a key that was never written.

    Raises:
        ConfigurationError: the type does not support the merge, or the default is not of the type.
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
            raise ConfigurationError(["a state key has an empty name"])
        try:
            kept = member_named(StateScope, scope, parameter="scope")
            merged = member_named(StateMerge, merge, parameter="merge")
        except ValueError as error:
            raise ConfigurationError([f"state key {key!r}: {error}"]) from None
        if (problem := type_problem(merged, type)) is not None:
            raise ConfigurationError([f"state key {key!r}: {problem}"])
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(type)
            written = to_json_value(self._adapter, default)
        except (PydanticUserError, PydanticSerializationError, TypeError, ValueError) as error:
            raise ConfigurationError([f"state key {key!r}: {_problem(error)}"]) from error
        self._spec = StateKeySpec(key=key, scope=kept, merge=merged, default=written)

    @property
    def key(self) -> str:
        return self._spec.key

    @property
    def spec(self) -> StateKeySpec:
        """The key as a run is bound to it."""
        return self._spec

    def read(self, value: JsonValue) -> T:
        """A stored value in the key's type.

        Raises:
            ValueError: it is not of the type, for example because the key's type has changed since it was written.
        """
        try:
            return self._adapter.validate_json(to_json(value))
        except ValidationError as error:
            raise ValueError(
                f"the stored value of state key {self.key!r} is not of its type: {_problem(error)}"
            ) from error

    def written(self, value: T) -> JsonValue:
        """The value as JSON.

        Raises:
            ValueError: it is not of the type, or JSON cannot represent it.
        """
        try:
            written = to_json_value(self._adapter, value)
            if (problem := depth_problem(written)) is not None:
                raise ValueError(problem)
        except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
            shown = cut(repr(value), NAME_LENGTH) if not isinstance(error, RecursionError) else "it"
            raise ValueError(f"state key {self.key!r} cannot hold {shown}: {_problem(error)}") from error
        return written

    def __repr__(self) -> str:
        return f"StateKey({self.key!r}, scope={self.spec.scope.value!r}, merge={self.spec.merge.value!r})"


class State:
    """An agent's state as one tool call or one hook sees it.

    It has the values from when the call or the phase started, and your own writes since. Write each key with the method
    of its merge: `set` for an exclusive key, `add`, `append`, `union`, `max` or `min` for the others.
    """

    def __init__(self, view: StateView | None = None, keys: Sequence[StateKeySpec] = (), *, agent_id: str = "") -> None:
        self._view = view or StateView()
        self._specs = {spec.key: spec for spec in keys}
        self._agent_id = agent_id
        self._written: dict[str, JsonValue] = {}
        self._operations: list[StateOp] = []

    @property
    def base(self) -> int:
        """The revision of the state that this view started from."""
        return self._view.revision

    @property
    def operations(self) -> tuple[StateOp, ...]:
        """The writes, in order."""
        return tuple(self._operations)

    def declares(self, key: StateKey[Any]) -> bool:
        return key.key in self._specs

    def get(self, key: StateKey[T]) -> T:
        """The key's value, or its default if it was never written.

        Raises:
            ConfigurationError: the agent does not declare the key.
        """
        return key.read(self._value(self._spec(key)))

    def set(self, key: StateKey[T], value: T) -> None:
        """Replace the value of an exclusive key."""
        self._write(key, StateAction.SET, key.written(value), by=StateMerge.EXCLUSIVE)

    def add(self, key: StateKey[N], value: N) -> None:
        """Add to a number; subtract with a negative one."""
        self._write(key, StateAction.MERGE, key.written(value), by=StateMerge.ADD)

    def append(self, key: StateKey[list[E]], value: E) -> None:
        """Append an entry to a list."""
        self._write(key, StateAction.MERGE, key.written([value]), by=StateMerge.APPEND)

    def union(self, key: StateKey[T], value: T) -> None:
        """Add the entries that the set or list does not have yet."""
        self._write(key, StateAction.MERGE, key.written(value), by=StateMerge.UNION)

    def max(self, key: StateKey[T], value: T) -> None:
        """Keep the greater of the stored value and this one."""
        self._write(key, StateAction.MERGE, key.written(value), by=StateMerge.MAX)

    def min(self, key: StateKey[T], value: T) -> None:
        """Keep the smaller of the stored value and this one."""
        self._write(key, StateAction.MERGE, key.written(value), by=StateMerge.MIN)

    def reset(self, key: StateKey[Any]) -> None:
        """Restore the default."""
        self._apply(self._spec(key), StateOp(key=key.key, action=StateAction.RESET))

    def staged(self) -> "State":
        """A copy for work that may fail: its writes do not count until you `commit` it."""
        view = StateView(revision=self.base, values={**self._view.values, **self._written})
        return State(view, tuple(self._specs.values()), agent_id=self._agent_id)

    def commit(self, staged: "State") -> None:
        """Apply the writes of a staged copy."""
        for operation in staged.operations:
            self._apply(self._specs[operation.key], operation)

    def _write(self, key: StateKey[Any], action: StateAction, value: JsonValue, *, by: StateMerge) -> None:
        spec = self._spec(key)
        if spec.merge is not by:
            raise ValueError(
                f"state key {spec.key!r} has merge={spec.merge.value!r}: write it with "
                f"state.{_METHODS[spec.merge]}(), not state.{_METHODS[by]}()"
            )
        self._apply(spec, StateOp(key=spec.key, action=action, value=value))

    def _apply(self, spec: StateKeySpec, operation: StateOp) -> None:
        value = applied(spec, self._value(spec), operation)
        if operation.action is not StateAction.RESET:
            self._check_size(spec.key, value)
        self._written[spec.key] = value
        self._operations.append(operation)

    def _check_size(self, key: str, value: JsonValue) -> None:
        size = len(json_bytes({**self._view.values, **self._written, key: value}))
        if size > STATE_LIMIT:
            raise ValueError(
                f"state key {key!r} cannot be written: the whole state would have {size:,} bytes; "
                f"at most {STATE_LIMIT:,} are allowed"
            )

    def _value(self, spec: StateKeySpec) -> JsonValue:
        if spec.key in self._written:
            return self._written[spec.key]
        return self._view.values.get(spec.key, spec.default)

    def _spec(self, key: StateKey[Any]) -> StateKeySpec:
        """The key as the run is bound to it; the code may be newer."""
        spec = self._specs.get(key.key)
        if spec is None:
            declared = ", ".join(sorted(self._specs)) or "none"
            problem = (
                f"agent {self._agent_id!r} does not declare state key {key.key!r}: add it to the `state` of the agent "
                f"or of a plugin; declared: {declared}"
            )
            raise ConfigurationError([problem])
        return spec


_METHODS = {merge: "set" if merge is StateMerge.EXCLUSIVE else merge.value for merge in StateMerge}


def _problem(error: Exception) -> str:
    return validation_problems(error)[0] if isinstance(error, ValidationError) else str(error)
