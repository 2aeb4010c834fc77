"""Budgets: what a run and its descendants may spend, and what they have spent."""

from pydantic import Field

from wakeful.contract.base import Maybe, Wire, Written

DEFAULT_AGENTS = 500
"""Sub-agents that the run at the root of a tree and its descendants may start, unless a budget says otherwise."""


class Budget(Written):
    """Limits over a run and its descendants; a limit that is not set does not apply."""

    tokens: Maybe[int] = Field(default=None, ge=0)
    """Prompt and completion tokens, as providers count them."""
    cost: Maybe[float] = Field(default=None, ge=0, allow_inf_nan=False)
    """In the currency of the registry's prices."""
    turns: Maybe[int] = Field(default=None, ge=0)
    """Model calls."""
    tool_calls: Maybe[int] = Field(default=None, ge=0)
    seconds: Maybe[float] = Field(default=None, ge=0, allow_inf_nan=False)
    """Wall time since the run started, including time spent waiting."""
    agents: Maybe[int] = Field(default=None, ge=0)
    """Sub-agents that the run and its descendants start; 500 for the run at the root of a tree, if this is not set."""


class Spent(Wire):
    """What a run and its descendants have spent so far."""

    tokens: int = 0
    cost: float = 0.0
    turns: int = 0
    tool_calls: int = 0

    def plus(self, other: "Spent") -> "Spent":
        return Spent(
            tokens=self.tokens + other.tokens,
            cost=round(self.cost + other.cost, 9),
            turns=self.turns + other.turns,
            tool_calls=self.tool_calls + other.tool_calls,
        )


class Price(Written):
    """What a model costs per million tokens, in any currency; budgets use the same one."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: Maybe[float] = Field(default=None, ge=0, allow_inf_nan=False)
    """For tokens read from the provider's cache; defaults to `input`."""
    cache_write: Maybe[float] = Field(default=None, ge=0, allow_inf_nan=False)
    """For tokens written to the provider's cache, which some charge at more than `input`; defaults to `input`."""
