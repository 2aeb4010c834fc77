"""The two bases of every contract type, and the two ways a field may be left out of its JSON.

`Wire` is what history, activities and other workers bring: unknown fields are ignored, so that an old worker reads a
newer history. `Written` is what a person types into a request, a signal or a file: unknown fields are refused, so that
a typo never passes for a setting.
"""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


def _is_none(value: object) -> bool:
    return value is None


def _is_empty(value: object) -> bool:
    return not value


Maybe = Annotated[T | None, Field(exclude_if=_is_none)]
"""An optional field that leaves no trace in the JSON while it is absent."""

Few = Annotated[T, Field(exclude_if=_is_empty)]
"""A collection, flag or text that leaves no trace in the JSON while it is empty."""


class Wire(BaseModel):
    """Read from history or from another process: frozen, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Written(BaseModel):
    """Written by a person: frozen, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
