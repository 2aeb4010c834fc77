"""Enums by the names of their members, as people write them: `on_busy="steer"`.

Each such enum has a `Literal` beside it, so that type checkers know the names. Models need nothing else: pydantic turns
a name into its member. Functions call `member_named`.
"""

from enum import StrEnum
from typing import TypeVar

E = TypeVar("E", bound=StrEnum)


def member_named(kind: type[E], name: str, *, parameter: str) -> E:
    """The member of an enum with this name, or the member itself.

    Raises:
        ValueError: there is none; the message has the parameter, and the names that there are.
    """
    try:
        return kind(name)
    except ValueError:
        names = ", ".join(repr(member.value) for member in kind)
        raise ValueError(f"{parameter} is {name!r}: use one of {names}") from None
