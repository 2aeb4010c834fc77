"""Values of Wakeful's contract as attributes of spans."""

from wakeful.contract.runs import Usage
from wakeful.telemetry import names
from wakeful.telemetry.spans import Value


def usage_attributes(usage: Usage) -> dict[str, Value]:
    """The tokens that a provider reported."""
    counts = {
        names.INPUT_TOKENS: usage.prompt_tokens,
        names.OUTPUT_TOKENS: usage.completion_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_CREATION_TOKENS: usage.cache_creation_tokens,
        names.REASONING_TOKENS: usage.thinking_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}
