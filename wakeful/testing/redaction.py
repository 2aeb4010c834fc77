"""Keep secrets out of recordings."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from wakeful.contract.streaming import CallArgumentsPart, ReasoningPart, StreamPart, TextPart

REDACTED = "[redacted]"

_NAMES = re.compile(r"(^|_)(API_?)?(KEY|TOKEN|SECRET|PASSWORD)S?(_|$)", re.IGNORECASE)

SHORTEST = 8
"""Characters of a secret from the environment: shorter values, such as `true`, are in many other texts."""


@dataclass(frozen=True)
class Redaction:
    """Replaces secrets in texts; the longest come first, because one may contain another."""

    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, environ: Mapping[str, str], secrets: Sequence[str]) -> "Redaction":
        """The given secrets, and those that the environment seems to have."""
        found = (value for name, value in environ.items() if _NAMES.search(name) and len(value) >= SHORTEST)
        known = {form for secret in (*filter(None, secrets), *found) for form in _forms(secret)}
        return cls(tuple(sorted(known, key=lambda secret: (-len(secret), secret))))

    def text(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, REDACTED)
        return text

    def json(self, value: Any) -> Any:
        """A copy of a JSON value in which no string has a secret."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.json(each) for each in value]
            case dict():
                return {self.text(name): self.json(each) for name, each in value.items()}
            case _:
                return value

    def parts(self, parts: Iterable[StreamPart]) -> tuple[StreamPart, ...]:
        """The parts without secrets: those that share one are joined."""
        made: list[StreamPart] = []
        for _, group in groupby(parts, key=_stretch):
            made += self._stretch_without_secrets(list(group))
        return tuple(made)

    def _stretch_without_secrets(self, stretch: list[StreamPart]) -> list[StreamPart]:
        first = stretch[0]
        if not isinstance(first, TextPart | ReasoningPart | CallArgumentsPart):
            return stretch
        whole = "".join(part.text for part in stretch if isinstance(part, TextPart | ReasoningPart | CallArgumentsPart))
        redacted = self.text(whole)
        return stretch if redacted == whole else [replace(first, text=redacted)]


def _forms(secret: str) -> set[str]:
    """A secret as it is, and as JSON writes it: the arguments of a call are JSON, and so are the results of tools."""
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}


def _stretch(part: StreamPart) -> object:
    """Equal for consecutive parts that are pieces of one text."""
    match part:
        case CallArgumentsPart(index=index):
            return CallArgumentsPart, index
        case ReasoningPart(signature=signature):
            return ReasoningPart, signature
        case _:
            return type(part)
