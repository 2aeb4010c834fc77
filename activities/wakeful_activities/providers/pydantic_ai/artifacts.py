"""What pydantic-ai's parts carry besides their text, which their provider must be sent back unchanged.

Signatures of reasoning, encrypted reasoning, thought signatures of tool calls, ids of items. History has one field for
it, the signature of a thinking block, so an artifact is written there as JSON.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue, ValidationError
from pydantic_core import to_jsonable_python

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.messages import ThinkingBlock

_MOST_CHARACTERS = 100_000
"""More than any signature has. Details of this size are for people, such as probabilities of tokens."""


class Artifact(Wire):
    """What one part of an answer carries."""

    pydantic_ai: Literal["thinking", "text", "tool-call"]
    """The kind of the part."""
    call: Maybe[str] = None
    """Of a tool call: the provider's id of it."""
    id: Maybe[str] = None
    signature: Maybe[str] = None
    provider: Maybe[str] = None
    system: Maybe[str] = None
    """The service that can verify it, if that is not the provider."""
    details: Few[dict[str, JsonValue]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether the provider may ask for it: without one of these, there is nothing but text."""
        return bool(self.id or self.signature or self.details)

    def as_signature(self) -> str | None:
        """The artifact as the signature of a thinking block; None if there is nothing to send back."""
        written = self.model_dump_json()
        return written if self.is_needed and len(written) <= _MOST_CHARACTERS else None


def artifact_of(block: ThinkingBlock) -> Artifact | None:
    """The artifact that a thinking block holds; None for one of another provider."""
    try:
        return Artifact.model_validate_json(block.signature or "")
    except ValidationError:
        return None


def json_details(details: Mapping[str, object] | None) -> dict[str, JsonValue]:
    """A provider's details as JSON; what is not JSON, such as a time, becomes text."""
    made: dict[str, JsonValue] = to_jsonable_python(details or {}, fallback=str, inf_nan_mode="strings")
    return made
