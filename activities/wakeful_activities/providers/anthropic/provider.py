"""The Messages API of Anthropic."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from pydantic import JsonValue

from wakeful.contract.inference import ModelRequest
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
from wakeful.contract.model_settings import PromptCache, ReasoningBudget
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.providers.anthropic.answers import AnthropicReader, thinking_block
from wakeful_activities.providers.shared.closed_schemas import ANTHROPIC, closed_schema
from wakeful_activities.providers.shared.failures import Endpoint
from wakeful_activities.providers.shared.http import HttpProvider
from wakeful_activities.providers.shared.reading import Reader
from wakeful_activities.providers.shared.writing import (
    BUDGETS,
    Json,
    MessageRef,
    arguments_of,
    document_text,
    effort_name,
    has_media,
    json_only,
    left_out,
    numbered,
    sorted_tools,
    without_nulls,
)

ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2023-06-01"
MAX_TOKENS = 8_192
"""The limit for an answer whose settings have none: the API requires one."""
MIN_THINKING_TOKENS = 1_024

_BUDGET_MODELS = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:[-.][015])?(?:-\d{8}|-latest|[@:]|$))")
"""The Claude models that take a token budget for thinking. Final: all later models reject a budget."""


_OMITTED = "[Earlier messages of this conversation are omitted.]"


class AnthropicMessages(HttpProvider):
    """Claude, and other models behind a Messages API."""

    home = ANTHROPIC_URL
    path = "/v1/messages"
    models_path = "/v1/models"
    key_variable = "ANTHROPIC_API_KEY"
    url_variable = "ANTHROPIC_BASE_URL"
    vendor = "anthropic"

    def _headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})

    def _reader(self, endpoint: Endpoint, request_id: str | None) -> Reader:
        return AnthropicReader(endpoint, request_id)

    def _body(self, request: ModelRequest) -> Json:
        instructions, turns = _conversation(request)
        format = _format(request)
        if request.output and format is None:
            instructions.append(json_only(request.output))
        system = [_text(text) for text in (request.instructions, *instructions) if text.strip()]
        tools = [_tool(tool) for tool in sorted_tools(request)]
        if request.prompt_cache:
            newest = next((turn.blocks for turn in reversed(turns) if turn.role == "user"), [])
            _mark_cached(tools, system, newest, retention=request.settings.prompt_cache)
        body: Json = {
            "model": request.model,
            "messages": [{"role": turn.role, "content": [*turn.blocks]} for turn in turns],
            "system": [*system] or None,
            "tools": [*tools] or None,
            "stream": True,
            "output_config": without_nulls({"effort": _effort(request), "format": format}) or None,
        }
        return without_nulls(body | _limits(request, turns))


def _format(request: ModelRequest) -> JsonValue:
    """The format of answers that match the output type; None if structured outputs do not support it."""
    if request.output is None or not _is_claude(request.model):
        return None
    schema = closed_schema(request.output.json_schema, ANTHROPIC)
    return None if schema is None else {"type": "json_schema", "schema": schema}


def _is_claude(model: str) -> bool:
    return "claude" in model.lower()


def _effort(request: ModelRequest) -> str | None:
    """The effort for a model that decides itself when to think; None for other models."""
    effort = request.settings.reasoning_effort
    if effort is None or effort == "none" or not _is_claude(request.model) or _BUDGET_MODELS.search(request.model):
        return None
    return effort_name(effort)


def _limits(request: ModelRequest, turns: list["_Turn"]) -> Json:
    """The token limit, sampling and thinking. Thinking uses up the limit, and excludes a temperature."""
    settings, limit = request.settings, request.settings.max_tokens
    effort = settings.reasoning_effort
    if effort is None or effort == "none" or (_effort(request) is None and _lacks_thinking(turns)):
        off: JsonValue = {"type": "disabled"} if effort == "none" else None
        sampling: Json = {"temperature": settings.temperature, "top_p": settings.top_p}
        return {"max_tokens": limit or MAX_TOKENS, "thinking": off, **sampling}
    budget = effort.budget if isinstance(effort, ReasoningBudget) else BUDGETS[effort]
    if _effort(request) is not None:
        return {"max_tokens": limit or MAX_TOKENS + budget, "thinking": {"type": "adaptive", "display": "summarized"}}
    budget = max(budget, MIN_THINKING_TOKENS)
    if limit is None or limit <= budget:
        limit = (limit or MAX_TOKENS) + budget
    return {"max_tokens": limit, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _mark_cached(*ends: list[Json], retention: PromptCache | None) -> None:
    """Ask the API to cache everything up to each of these ends: what follows changes more often."""
    marker: Json = {"type": "ephemeral"}
    if isinstance(retention, str):
        marker["ttl"] = retention
    for blocks in filter(None, ends):
        blocks[-1]["cache_control"] = marker


def _tool(tool: ToolDescriptor) -> Json:
    return {"name": tool.id, "description": tool.description, "input_schema": tool.parameters}


@dataclass
class _Turn:
    """Consecutive messages of one role: the API requires roles to alternate."""

    role: Literal["user", "assistant"]
    blocks: list[Json]


def _lacks_thinking(turns: list[_Turn]) -> bool:
    """Whether tool results follow a turn that does not begin with thinking: the API then rejects a budget."""
    match turns[-2:]:
        case [_Turn("assistant", [first, *_]), _Turn("user", [{"type": "tool_result"}, *_])]:
            return first["type"] not in ("thinking", "redacted_thinking")
        case _:
            return False


def _conversation(request: ModelRequest) -> tuple[list[str], list[_Turn]]:
    """The leading system messages, and the turns after them."""
    instructions: list[str] = []
    turns: list[_Turn] = []
    for message, ref in numbered(request, "AnthropicMessages"):
        if message.role is Role.SYSTEM and not turns:
            instructions.append(ref.text_of(message))
            continue
        role: Literal["user", "assistant"] = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = [*_blocks(message, ref)]
        if blocks and turns and turns[-1].role == role:
            turns[-1].blocks.extend(blocks)
        elif blocks:
            turns.append(_Turn(role, blocks))
    for turn in turns:
        if turn.role == "user":  # results must directly follow their calls, even if other messages came between
            turn.blocks.sort(key=lambda block: block["type"] != "tool_result")
    if (
        turns and turns[0].role == "assistant"
    ):  # of a long conversation a request has the end; the API wants a user first
        turns.insert(0, _Turn("user", [_text(_OMITTED)]))
    return instructions, turns


def _blocks(message: Message, ref: MessageRef) -> Iterator[Json]:
    """A message's blocks, without empty ones, which the API rejects."""
    match message.role:
        case Role.USER:
            for block in message.content:
                yield from _part(block)
        case Role.SYSTEM:
            text = ref.text_of(message)
            yield from [_text(f"<system>\n{text}\n</system>")] if text.strip() else []
        case Role.ASSISTANT:
            text = ref.text_of(message)
            yield from filter(None, (thinking_block(b) for b in message.content if isinstance(b, ThinkingBlock)))
            yield from [_text(text)] if text.strip() else []
            yield from (_call(call) for call in message.tool_calls)
        case Role.TOOL:
            yield {
                "type": "tool_result",
                "tool_use_id": _call_id(ref.call_id_of(message)),
                "content": _result(message, ref),
            }
        case _:
            assert_never(message.role)


def _result(message: Message, ref: MessageRef) -> JsonValue:
    """A tool's result: text, or the parts of one that has pictures and documents as well."""
    if not has_media(message):
        return ref.text_of(message)
    parts: list[JsonValue] = [part for block in message.content for part in _part(block)]
    return parts


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _call(call: ToolCall) -> Json:
    arguments = arguments_of(call)
    input: JsonValue = arguments if isinstance(arguments, dict) else {"arguments": arguments}
    return {"type": "tool_use", "id": _call_id(call.id), "name": call.name, "input": input}


def _call_id(id: str) -> str:
    """The id in the characters that the API allows."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def _part(block: ContentBlock) -> Iterator[Json]:
    match block:
        case TextBlock(text=text):
            yield from [_text(text)] if text.strip() else []
        case ImageBlock(source=source):
            yield {"type": "image", "source": _source(source)}
        case DocumentBlock(source=source, title=title):
            content = document_text(block)
            plain: Json = {"type": "text", "media_type": "text/plain", "data": content}
            from_source = _source(source) if content is None else plain
            yield without_nulls({"type": "document", "source": from_source, "title": title})
        case ThinkingBlock():
            pass
        case AudioBlock() | VideoBlock() | ToolUseBlock() | ToolResultBlock():
            yield _text(left_out(block))
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
