"""Frozen values: the two bases of every contract type, the two ways to omit a field from JSON, and `replace`.

`Wire` models are read from history, activities and other workers. They ignore unknown fields, so that an older worker
can read a newer history. `Written` models are typed by people in requests, signals and files. They reject unknown
fields, so that a typo is never silently ignored.

For type checkers, models that people write in code declare an `__init__`: it accepts an enum's member by name, and any
sequence where the model has a tuple. Pydantic converts both, so what you read are enums and tuples.
"""

import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from wakeful.contract.errors import InvalidValue
from wakeful.contract.field_problems import field_problems

T = TypeVar("T")
R = TypeVar("R")


def _is_none(value: object) -> bool:
    return value is None


def _is_empty(value: object) -> bool:
    return not value


Maybe = Annotated[T | None, Field(exclude_if=_is_none)]
"""An optional field that is omitted from the JSON while it is None."""

Few = Annotated[T, Field(exclude_if=_is_empty)]
"""A collection, flag or text that is omitted from the JSON while it is empty."""


class Wire(BaseModel):
    """Read from history or from another process. Frozen; ignores unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def json_bytes(value: Any) -> int:
    """The bytes of its JSON, as Temporal's limits count them: a character can have four."""
    return len(to_json(value))


class Once(Generic[T, R]):
    """What a function finds of values that do not change, such as their size: once for each value, while it lives.

    Not a cached property, because `replace` would copy what is cached.
    """

    def __init__(self, function: Callable[[T], R]) -> None:
        self._function = function
        self._found: dict[int, R] = {}
        self._values: dict[int, weakref.ref[T]] = {}

    def __call__(self, value: T) -> R:
        key = id(value)
        if key not in self._values:
            self._found[key] = self._function(value)
            self._values[key] = weakref.ref(value, partial(self._forget, key))
        return self._found[key]

    def _forget(self, key: int, _: object) -> None:
        # Python calls this before another value can have the same identity.
        del self._found[key], self._values[key]


class Identical(Generic[T]):
    """A value as a key of a cache, without reading all of it."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identical) and other.value is self.value


class Written(BaseModel):
    """Written by a person. Frozen; rejects unknown fields.

    Constructed in code, it raises `InvalidValue`. Inside of another model, and by `model_validate`, pydantic raises its
    own error with all that is wrong.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, /, *positional: Any, **fields: Any) -> None:
        kind = type(self)
        if positional:
            first = next((name for name, field in kind.model_fields.items() if field.is_required()), "name")
            raise InvalidValue(kind.__name__, [f"it takes its fields by name, as in {kind.__name__}({first}=…)"])
        try:
            super().__init__(**fields)
        except ValidationError as error:
            named = fields.get("id", fields.get("name"))
            subject = f"{kind.__name__} {named!r}" if isinstance(named, str) and named else kind.__name__
            raise InvalidValue(subject, field_problems(kind, fields, error)) from None

    # Else pydantic would call it for every value inside of another model, and could not collect what is wrong there.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(value, /, **changes):
        """A copy of a frozen dataclass with these fields changed, as `dataclasses.replace` makes it.

        It does not run the constructor: a step of the loop makes some thirty small changes to values of up to thirty
        fields, and a frozen dataclass's constructor sets each field through a function call. That was most of the
        loop's time.
        """
        copy = object.__new__(type(value))
        copy.__dict__.update(value.__dict__, **changes)
        return copy
