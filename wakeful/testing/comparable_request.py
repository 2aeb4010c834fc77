"""A model request as recordings store and compare it: what the model reads, without the ids that vary."""

import difflib
import json
from collections.abc import Mapping
from typing import Any

from wakeful.contract.inference import ModelRequest
from wakeful.contract.messages import ContentBlock, Message, TextBlock, ThinkingBlock

Json = dict[str, Any]
"""A JSON object that a file has."""

SHOWN_LINES = 60


def comparable(request: ModelRequest) -> Json:
    """What the model reads of a request, as JSON: equal for two requests that should have the same answer."""
    ids = _numbered_calls(request)
    made: Json = {
        "model": request.model,
        "instructions": request.instructions,
        "messages": [_message(message, ids) for message in request.messages],
        "tools": [
            {"name": tool.id, "description": tool.description, "parameters": tool.parameters} for tool in request.tools
        ],
        "settings": request.settings.model_dump(mode="json", exclude_defaults=True),
        "output": None if request.output is None else request.output.model_dump(mode="json", include={"json_schema"}),
    }
    return {name: value for name, value in made.items() if value}


def difference(recorded: Mapping[str, object], sent: Mapping[str, object]) -> str:
    """How a request differs from the nearest one that is recorded, as a diff of their JSON."""
    lines = list(difflib.unified_diff(_lines(recorded), _lines(sent), "nearest recording", "this request", lineterm=""))
    left_out = len(lines) - SHOWN_LINES
    return "\n".join([*lines[:SHOWN_LINES], *([f"({left_out} more lines)"] if left_out > 0 else [])])


def similarity(recorded: Mapping[str, object], sent: Mapping[str, object]) -> float:
    return difflib.SequenceMatcher(None, _lines(recorded), _lines(sent), autojunk=False).ratio()


def _lines(request: Mapping[str, object]) -> list[str]:
    return json.dumps(request, indent=2, ensure_ascii=False).splitlines()


def _numbered_calls(request: ModelRequest) -> dict[str, str]:
    """The calls of the conversation, numbered: their ids may vary from run to run."""
    used = dict.fromkeys(call.id for message in request.messages for call in message.tool_calls)
    return {id: f"call {number}" for number, id in enumerate(used, start=1)}


def _message(message: Message, ids: Mapping[str, str]) -> Json:
    made: Json = {"role": message.role.value}
    if message.tool_call_id is not None:
        made["result_of"] = ids.get(message.tool_call_id, message.tool_call_id)
    match message.content:
        case (TextBlock(text=text),):
            made["text"] = text
        case ():
            pass
        case blocks:
            made["content"] = [_block(block) for block in blocks]
    if message.tool_calls:
        made["calls"] = [
            {"id": ids[call.id], "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    return made


def _block(block: ContentBlock) -> Json:
    # A signature is noise to a reader, and follows from the answer that is recorded.
    exclude = {"signature"} if isinstance(block, ThinkingBlock) else None
    return block.model_dump(mode="json", exclude=exclude)
