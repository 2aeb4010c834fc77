"""What an answer costs, by the registry's prices."""

from wakeful.contract.budgets import Price
from wakeful.contract.runs import Usage

_MILLION = 1_000_000


def priced(usage: Usage, price: Price | None) -> Usage:
    """The usage with its cost; as it is where there is no price, or nobody has counted tokens."""
    if price is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return usage
    cached = max(0, usage.cache_read_tokens or 0)
    fresh = max(0, (usage.prompt_tokens or 0) - cached)
    said = max(0, usage.completion_tokens or 0)
    of_cached = price.input if price.cached_input is None else price.cached_input
    cost = (fresh * price.input + cached * of_cached + said * price.output) / _MILLION
    return usage.model_copy(update={"cost": round(cost, 9)})
