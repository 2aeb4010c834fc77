"""The file of a `RecordedModel`: requests and the parts of their answers, sorted, so that diffs are small."""

import hashlib
import json
import os
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StartPart,
    StopPart,
    StreamPart,
    TextPart,
    UsagePart,
)
from wakeful.testing.comparable_request import similarity

FORMAT = 1

_PARTS: dict[str, TypeAdapter[StreamPart]] = {
    "start": TypeAdapter(StartPart),
    "text": TypeAdapter(TextPart),
    "reasoning": TypeAdapter(ReasoningPart),
    "call": TypeAdapter(CallStartPart),
    "arguments": TypeAdapter(CallArgumentsPart),
    "call_end": TypeAdapter(CallEndPart),
    "usage": TypeAdapter(UsagePart),
    "stop": TypeAdapter(StopPart),
}
_NAMES: dict[type, str] = {
    StartPart: "start",
    TextPart: "text",
    ReasoningPart: "reasoning",
    CallStartPart: "call",
    CallArgumentsPart: "arguments",
    CallEndPart: "call_end",
    UsagePart: "usage",
    StopPart: "stop",
}


@dataclass(frozen=True)
class Recording:
    """A request, as `comparable` makes it, and the parts of its answer."""

    request: Mapping[str, Any]
    answer: tuple[StreamPart, ...]

    @classmethod
    def of(cls, request: Mapping[str, Any], answer: Iterable[StreamPart]) -> "Recording":
        """The recording of a live answer, without ids of the provider: they would change if it is recorded again."""
        digest = _digest(request)
        return cls(request, tuple(_without_ids(part, digest) for part in answer))

    @property
    def digest(self) -> str:
        return _digest(self.request)

    @property
    def order(self) -> tuple[int, str]:
        """Short conversations first, so that a file reads like the runs that made it."""
        return len(self.request.get("messages", ())), json.dumps(self.request, sort_keys=True)


class Recordings:
    """The recordings of a file, which need not exist yet.

    Raises:
        ConfigurationError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._by_digest = _read(path)

    def find(self, request: Mapping[str, Any]) -> Recording | None:
        """The recording of this very request."""
        return self._by_digest.get(_digest(request))

    def nearest(self, request: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The recorded request that differs least from this one; None if there is none."""
        recorded = (recording.request for recording in self._by_digest.values())
        return max(recorded, key=lambda each: similarity(each, request), default=None)

    def add(self, recording: Recording) -> None:
        """Write a recording into the file, with those that other models have added meanwhile."""
        self._by_digest = {**_read(self.path), recording.digest: recording}
        _write(self.path, sorted(self._by_digest.values(), key=lambda each: each.order))


def _digest(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _without_ids(part: StreamPart, digest: str) -> StreamPart:
    match part:
        case StartPart(model=model):
            return StartPart(model)
        case CallStartPart(index=index, id=id, name=name):
            return CallStartPart(index, f"call_{digest[:8]}_{index + 1}" if id else "", name)
        case _:
            return part


def _read(path: Path) -> dict[str, Recording]:
    try:
        file = json.loads(path.read_text(encoding="utf-8"))
        if (format := file["format"]) != FORMAT:
            raise ValueError(f"it has format {format!r}, and this release reads {FORMAT}")
        read = [Recording(each["request"], tuple(map(_parse_part, each["answer"]))) for each in file["recordings"]]
        return {recording.digest: recording for recording in read}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigurationError([f"the recordings in {str(path)!r} cannot be read: {what}"]) from error


def _parse_part(part: dict[str, Any]) -> StreamPart:
    (name, fields), *others = part.items()
    if others:
        raise ValueError(f"a part of an answer has several names: {sorted(part)}")
    return _PARTS[name].validate_python(fields)


def _write(path: Path, recordings: Iterable[Recording]) -> None:
    """Replace the file as a whole: a run that is killed must not leave half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = ",\n".join(map(_written, recordings))
    text = f'{{\n  "format": {FORMAT},\n  "recordings": [\n{textwrap.indent(written, "    ")}\n  ]\n}}\n'
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def _written(recording: Recording) -> str:
    """A recording as JSON: the request indented, and every part of the answer on a line of its own."""
    request = textwrap.indent(json.dumps(recording.request, indent=2, ensure_ascii=False), "  ").lstrip()
    parts = ",\n".join(f"    {json.dumps(_part_json(part), ensure_ascii=False)}" for part in recording.answer)
    return f'{{\n  "request": {request},\n  "answer": [\n{parts}\n  ]\n}}'


def _part_json(part: StreamPart) -> dict[str, Any]:
    name = _NAMES[type(part)]
    return {name: _PARTS[name].dump_python(part, mode="json", exclude_defaults=True)}
