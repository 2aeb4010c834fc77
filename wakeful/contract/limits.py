"""Limits on everything that enters history, whatever its parts are, and on what peers send while it arrives.

Temporal refuses a payload of two mebibytes and a workflow task of four. What exceeds a limit would leave a run stuck,
or could be written and never be read again, so it is refused, cut or kept waiting before it is written. A model, a tool
server, a remote agent or a script that writes without end is stopped at its limit, not at its end.
"""

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator

from wakeful.contract.base import json_bytes

T = TypeVar("T")

COMMAND_BYTES = 1_900_000
"""Bytes of what one activity, child workflow or signal is given."""

IN_FLIGHT_BYTES = 1_500_000
"""Bytes of commands in flight, after which the next wait: the commands of one workflow task then stay under its limit,
even with a command that is as large as any may be."""

LOCAL_RESULTS_BYTES = 1_000_000
MAX_RUNNING_LOCAL = 8
"""Results of local tools in one workflow task: bytes, and calls whose results are still to come."""

DEPTH = 100
"""Levels of nested lists and objects in a value. Readers put it into other values, and JSON parsers stop at 200."""

REASON_LENGTH = 1_000
"""Characters of a reason that the thread keeps and shows: of a refusal, a decision or a cancel."""

NAME_LENGTH = 200
"""Characters of a name that a client chooses and the thread keeps."""

NAME_BYTES = 1_500
"""Of a tenant's or a user's name as a search attribute: Temporal terminates a workflow that sets one of over 2,048."""

METADATA_BYTES = 8_000
"""Bytes of a message's metadata, which waits with the message and belongs to the run that it begins."""

ANSWER_BYTES = 1_000_000
"""Bytes of a model's answer with its calls, verdicts and parsed output: a run's result repeats a part of it."""

ANSWER_PARTS = 1_000_000
"""Parts of a streamed answer, also empty ones: one for each byte of the longest."""

ANSWER_CALLS = 10_000
"""Tool calls of a streamed answer. Of an answer with fewer, those that are too many to execute are dropped."""

MESSAGE_BYTES = 16 * 1024 * 1024
"""Bytes of one message that a peer sends: an event, a line, or a body that is one JSON value. Pictures are in them."""

RESPONSE_BYTES = 256 * 1024 * 1024
"""Bytes of a whole streamed answer of a model: of one event for each token, the content is the smallest part."""

ERROR_BYTES = 64 * 1024
"""Bytes of an error that a peer answers: its message quotes less."""


def within(limit: int) -> Callable[[T], T]:
    """A validator: the value, if its JSON has at most so many bytes."""

    def check(value: T) -> T:
        if (size := json_bytes(value)) > limit:
            raise ValueError(f"it has {size:,} bytes; at most {limit:,} are accepted")
        return value

    return check


def valid_name(name: str) -> str:
    """A validator: the name of a tenant or a user. Lists, queries and search attributes show it as it is."""
    if not 0 < len(name) <= NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise ValueError(f"it must have 1 to {NAME_LENGTH} printable characters, and no space at its ends")
    if len(json.dumps(name)) > NAME_BYTES:
        raise ValueError(f"it must have at most {NAME_BYTES:,} bytes as ASCII JSON, where an emoji has twelve")
    return name


Name = Annotated[str, AfterValidator(valid_name)]


def valid_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """A validator: metadata that a run can refer to by its digest, which no number that JSON lacks may change."""
    if (problem := depth_problem(metadata)) is not None:
        raise ValueError(problem)
    json.dumps(metadata, allow_nan=False)
    return within(METADATA_BYTES)(metadata)


def cut(text: str, length: int = REASON_LENGTH) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def depth_problem(value: object) -> str | None:
    """Why a value is nested too deeply; None if it is not. It does not recurse, so that no value can break it."""
    level = [value]
    for _ in range(DEPTH + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return None
    return f"it is nested more than {DEPTH} levels deep"


def _children(value: object) -> Any:
    match value:
        case dict():
            return value.values()
        case list() | tuple():
            return value
        case _:
            return ()
