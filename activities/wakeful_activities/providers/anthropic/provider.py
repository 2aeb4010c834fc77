"""The Messages API of Anthropic."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from pydantic import JsonValue

from wakeful.contract.inference import ModelRequest, ReasoningBudget
from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
    VideoBlock,
)
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.anthropic.answers import AnthropicReader, thinking_block
from wakeful_activities.providers.anthropic.schemas import promised
from wakeful_activities.providers.shared.failures import Callee
from wakeful_activities.providers.shared.http import HttpProvider
from wakeful_activities.providers.shared.reading import Reader
from wakeful_activities.providers.shared.writing import (
    BUDGETS,
    Json,
    Place,
    arguments_of,
    as_json,
    effort_of,
    no_nulls,
    placed,
    sorted_tools,
    text_within,
)

ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2023-06-01"
MAX_TOKENS = 8_192
"""The room for an answer whose settings name none: the API wants a number."""
LEAST_BUDGET = 1_024

_PAST = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:[-.][015])?(?:-\d{8}|-latest|[@:]|$))")
"""Claude models that think by a budget of tokens. Closed: all later ones choose for themselves, and refuse a budget."""


class AnthropicMessages(HttpProvider):
    """Claude, and other models behind a Messages API."""

    home = ANTHROPIC_URL
    path = "/v1/messages"
    key_variable = "ANTHROPIC_API_KEY"
    url_variable = "ANTHROPIC_BASE_URL"

    def _headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})

    def _reader(self, callee: Callee, request_id: str | None) -> Reader:
        return AnthropicReader(callee, request_id)

    def _body(self, request: ModelRequest) -> Json:
        told, turns = _conversation(request)
        format = promised(request.output.json_schema) if request.output and _is_claude(request.model) else None
        if request.output and format is None:
            told.append(_ASKED_FOR.format(schema=as_json(request.output.json_schema)))
        system = [_text(text) for text in (request.instructions, *told) if text.strip()]
        tools = [_tool(tool) for tool in sorted_tools(request)]
        if request.prompt_cache:
            _mark_cached(tools, system, next((turn.blocks for turn in reversed(turns) if turn.role == "user"), []))
        body: Json = {
            "model": request.model,
            "messages": [{"role": turn.role, "content": [*turn.blocks]} for turn in turns],
            "system": [*system] or None,
            "tools": [*tools] or None,
            "stream": True,
            "output_config": no_nulls({"effort": _effort(request), "format": format}) or None,
        }
        return no_nulls(body | _limits(request, turns))


_ASKED_FOR = "Answer with JSON that fits this JSON Schema, and with nothing else:\n{schema}"


def _is_claude(model: str) -> bool:
    return "claude" in model.lower()


def _effort(request: ModelRequest) -> str | None:
    """How much a model thinks that decides for itself when to."""
    effort = request.settings.reasoning_effort
    if effort is None or effort == "none" or not _is_claude(request.model) or _PAST.search(request.model):
        return None
    return effort_of(effort)


def _limits(request: ModelRequest, turns: list["_Turn"]) -> Json:
    """Room, sampling and thinking. What is thought takes room, and who thinks may not be told a temperature."""
    settings, room = request.settings, request.settings.max_tokens
    effort = settings.reasoning_effort
    if effort is None or effort == "none" or (_effort(request) is None and _is_thoughtless(turns)):
        off: JsonValue = {"type": "disabled"} if effort == "none" else None
        sampling: Json = {"temperature": settings.temperature, "top_p": settings.top_p}
        return {"max_tokens": room or MAX_TOKENS, "thinking": off, **sampling}
    budget = effort.budget if isinstance(effort, ReasoningBudget) else BUDGETS[effort]
    if _effort(request) is not None:
        return {"max_tokens": room or MAX_TOKENS + budget, "thinking": {"type": "adaptive", "display": "summarized"}}
    budget = max(budget, LEAST_BUDGET)
    if room is None or room <= budget:
        room = (room or MAX_TOKENS) + budget
    return {"max_tokens": room, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _mark_cached(*ends: list[Json]) -> None:
    """Ask for everything up to each of these ends to be cached: what follows changes more often."""
    for blocks in filter(None, ends):
        blocks[-1]["cache_control"] = {"type": "ephemeral"}


def _tool(tool: ToolDescriptor) -> Json:
    return {"name": tool.id, "description": tool.description, "input_schema": tool.parameters}


@dataclass
class _Turn:
    """What one side says until the other does: the API wants each to be one message."""

    role: Literal["user", "assistant"]
    blocks: list[Json]


def _is_thoughtless(turns: list[_Turn]) -> bool:
    """Are tools answering a turn that no thought of the model's own begins? A budget to think is refused then."""
    match turns[-2:]:
        case [_Turn("assistant", [first, *_]), _Turn("user", [{"type": "tool_result"}, *_])]:
            return first["type"] not in ("thinking", "redacted_thinking")
        case _:
            return False


def _conversation(request: ModelRequest) -> tuple[list[str], list[_Turn]]:
    """What the system says before anybody else does, and the turns after it."""
    told: list[str] = []
    turns: list[_Turn] = []
    for message, place in placed(request, "AnthropicMessages"):
        if message.role is Role.SYSTEM and not turns:
            told.append(place.text_of(message))
            continue
        role: Literal["user", "assistant"] = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = [*_blocks(message, place)]
        if blocks and turns and turns[-1].role == role:
            turns[-1].blocks.extend(blocks)
        elif blocks:
            turns.append(_Turn(role, blocks))
    for turn in turns:
        if turn.role == "user":  # results must directly follow their calls, whatever else was said meanwhile
            turn.blocks.sort(key=lambda block: block["type"] != "tool_result")
    return told, turns


def _blocks(message: Message, place: Place) -> Iterator[Json]:
    """A message's blocks; none that are empty, which the API refuses."""
    match message.role:
        case Role.USER:
            for block in message.content:
                yield from _part(block, place)
        case Role.SYSTEM:
            text = place.text_of(message)
            yield from [_text(f"<system>\n{text}\n</system>")] if text.strip() else []
        case Role.ASSISTANT:
            text = place.text_of(message)
            yield from filter(None, (thinking_block(b) for b in message.content if isinstance(b, ThinkingBlock)))
            yield from [_text(text)] if text.strip() else []
            yield from (_call(call) for call in message.tool_calls)
        case Role.TOOL:
            text = place.text_of(message)
            yield {"type": "tool_result", "tool_use_id": _call_id(place.call_of(message)), "content": text}
        case _:
            assert_never(message.role)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _call(call: ToolCall) -> Json:
    arguments = arguments_of(call)
    input: JsonValue = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return {"type": "tool_use", "id": _call_id(call.id), "name": call.name, "input": input}


def _call_id(id: str) -> str:
    """The id as the API allows it; another provider may have given it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def _part(block: ContentBlock, place: Place) -> Iterator[Json]:
    match block:
        case TextBlock(text=text):
            yield from [_text(text)] if text.strip() else []
        case ImageBlock(source=source):
            yield {"type": "image", "source": _source(source)}
        case DocumentBlock(source=source, title=title):
            within = text_within(block, place)
            plain: Json = {"type": "text", "media_type": "text/plain", "data": within}
            yield no_nulls({"type": "document", "source": _source(source) if within is None else plain, "title": title})
        case ThinkingBlock():
            pass
        case AudioBlock() | VideoBlock() | ToolUseBlock() | ToolResultBlock():
            raise place.cannot_hold(block)
        case _:
            assert_never(block)


def _source(source: MediaSource) -> Json:
    match source:
        case UrlSource(url=url):
            return {"type": "url", "url": url}
        case Base64Source(media_type=media_type, data=data):
            return {"type": "base64", "media_type": media_type, "data": data}
        case _:
            assert_never(source)
