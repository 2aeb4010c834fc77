"""Frozen values: the two bases of every contract type, the two ways to omit a field from JSON, and `replace`.

`Wire` models are read from history, activities and other workers. They ignore unknown fields, so that an older worker
can read a newer history. `Written` models are typed by people in requests, signals and files. They reject unknown
fields, so that a typo is never silently ignored.

For type checkers, models that people write in code declare an `__init__`: it accepts an enum's member by name, and any
sequence where the model has a tuple. Pydantic converts both, so what you read are enums and tuples.
"""

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

T = TypeVar("T")


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


class Written(BaseModel):
    """Written by a person. Frozen; rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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
