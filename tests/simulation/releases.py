"""The inputs of commands as two releases write them: what a replay on the later one may change in them."""

import base64
import json
import re
import zlib

from pydantic import JsonValue

FORMAT = re.compile(rb'"format":\d+')
REVISION = re.compile(rb'^(\{"agent_id":"[^"]*"),"revision":\d+')
COMPRESSED = ("messages", "outcomes", "events", "before")


def is_same_input(recorded: bytes, issued: bytes) -> bool:
    """Whether a replay has issued the input that history has.

    A later release names a later revision of the loop when it resolves an agent: the answer in history pins the run.
    Its snapshots have a later format: fields that the earlier one does not have.
    """
    before, after = FORMAT.findall(recorded), FORMAT.findall(issued)
    if before != after:
        return _has_all_of(json.loads(recorded), json.loads(issued))
    return REVISION.sub(rb"\1", recorded) == REVISION.sub(rb"\1", issued)


def _has_all_of(earlier: JsonValue, later: JsonValue) -> bool:
    match earlier, later:
        case dict(), dict():
            fields = _with_settings(earlier) if "settings" in later else earlier
            return all(_has_field(name, value, later.get(name)) for name, value in fields.items())
        case list(), list():
            return len(earlier) == len(later) and all(map(_has_all_of, earlier, later))
        case _:
            return earlier == later


def _with_settings(run: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A run of the first four formats, with its settings as one value."""
    if "overrides" not in run:
        return run
    settings: JsonValue = {"overrides": run["overrides"], "live": run.get("is_live", False)}
    return {name: value for name, value in run.items() if name not in ("overrides", "is_live")} | {"settings": settings}


def _has_field(name: str, earlier: JsonValue, later: JsonValue) -> bool:
    if name == "format" or (later is None and not earlier):  # a later format may leave a default out
        return True
    if name in COMPRESSED and isinstance(earlier, str) and isinstance(later, str):
        return _has_all_of(_expanded(earlier), _expanded(later))
    return _has_all_of(earlier, later)


def _expanded(text: str) -> JsonValue:
    expanded: JsonValue = json.loads(zlib.decompress(base64.b64decode(text)))
    return expanded
