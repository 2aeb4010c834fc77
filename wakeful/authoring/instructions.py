"""Dynamic instructions: a function that writes an agent's system prompt when a run starts."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, cast

from pydantic import JsonValue

from wakeful.authoring.lifespan import D_co


@dataclass(frozen=True, kw_only=True)
class InstructionsContext(Generic[D_co]):
    """What dynamic instructions can read. `InstructionsContext[Database]` says what `deps` is."""

    agent_id: str
    deps: D_co = field(default=cast("D_co", None), repr=False)
    """The value of the registry's lifespan; None if it has none."""
    tenant: str | None = None
    """The tenant that the thread belongs to."""
    user: str | None = None
    """The user for whom the run acts."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """Of the message that began the run."""


InstructionsFunction = Callable[[InstructionsContext[Any]], str | Awaitable[str]]
"""Sync or async. It runs once per run, in an activity, and history records what it returned."""
