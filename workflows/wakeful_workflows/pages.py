"""Pages that any client can take: a query's answer stays well under the server's limits."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel

PAGE_BYTES = 500_000

M = TypeVar("M", bound=BaseModel)


def fitting(items: Sequence[M]) -> tuple[M, ...]:
    """The first items that fit a page; at least one, so that asking on always gets on."""
    taken: list[M] = []
    size = 0
    for item in items:
        size += len(item.model_dump_json())
        if taken and size > PAGE_BYTES:
            break
        taken.append(item)
    return tuple(taken)
