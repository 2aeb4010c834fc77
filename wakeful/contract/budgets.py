"""Budgets: what a run, with everything it starts, may spend, and what it has spent."""

from pydantic import Field

from wakeful.contract.base import Maybe, Wire, Written


class Budget(Written):
    """Limits over a run and everything it starts; what is not set is not limited."""

    tokens: Maybe[int] = Field(default=None, ge=0)
    """Prompt and completion tokens, as providers count them."""
    cost: Maybe[float] = Field(default=None, ge=0, allow_inf_nan=False)
    """Money, in the currency of the registry's prices."""
    turns: Maybe[int] = Field(default=None, ge=0)
    """Model calls."""
    tool_calls: Maybe[int] = Field(default=None, ge=0)
    seconds: Maybe[float] = Field(default=None, ge=0, allow_inf_nan=False)
    """Wall time from the run's beginning, waiting included."""


class Spent(Wire):
    """What a run and the sub-agents below it have spent so far."""

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
    """What a model costs, for a million tokens of each kind, in whatever currency budgets are written in."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: Maybe[float] = Field(default=None, ge=0, allow_inf_nan=False)
    """For tokens read from the provider's cache; without it they cost what others do."""
