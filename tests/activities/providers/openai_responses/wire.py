"""Items and events of the Responses API."""

from pydantic import JsonValue

from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    UsagePart,
)

SIGNATURE = '{"id":"rs_1","encrypted_content":"gAAA"}'


HELLO_ITEM: JsonValue = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
USAGE: JsonValue = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
    "output_tokens_details": {"reasoning_tokens": 12},
}
USED = UsagePart(
    Usage(
        prompt_tokens=100,
        completion_tokens=20,
        total_tokens=120,
        cache_read_tokens=64,
        cache_creation_tokens=8,
        thinking_tokens=12,
    )
)


def event(kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
    return {"type": f"response.{kind}", **fields}


def ended(status: str, **fields: JsonValue) -> dict[str, JsonValue]:
    return event(status, response={"model": "test-model-2026", "status": status, **fields})


CREATED = event("created", response={"model": "test-model-2026", "status": "in_progress"})
COMPLETED = ended("completed")
HALF = (CREATED, event("output_text.delta", delta="hi"))
