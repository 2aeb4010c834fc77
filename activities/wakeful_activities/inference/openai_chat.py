"""The Chat Completions API: what OpenAI speaks, and Ollama, vLLM and LM Studio after it.

One request, one whole answer; nothing is streamed and nothing is retried: Temporal does that, by the kind of the error.
Above it the inference activity builds the request; below it are httpx and, for whatever goes wrong, `failures`.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Self, assert_never

import httpx
from pydantic import ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import from_json

from wakeful.contract.base import Wire
from wakeful.contract.errors import ConfigurationError, ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest, ModelResponse, StopReason
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
from wakeful.contract.runs import Usage
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.inference.failures import Callee, garbage, refused, unanswered

OPENAI_URL = "https://api.openai.com/v1"
CONNECT_SECONDS = 10.0

Json = dict[str, JsonValue]


class OpenAIChat:
    """Models behind a Chat Completions API: OpenAI, Ollama, vLLM, LM Studio and others that speak it.

    Args:
        api_key: None for a server that wants none.
        base_url: everything before `/chat/completions`.
        timeout: the seconds one whole answer may take.
        client: a client to share; whoever made it closes it.

    Raises:
        ConfigurationError: the key or the base URL cannot be used as they are.
    """

    def __init__(
        self,
        *,
        api_key: str | None,
        base_url: str = OPENAI_URL,
        timeout: float = 600,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        # A key read from a file ends in a newline; h11 would refuse the header in a message that quotes it.
        self._key = (api_key or "").strip() or None
        problems = [*_key_problems(self._key), *_url_problems(base_url)]
        if problems:
            raise ConfigurationError(problems)
        url = httpx.URL(base_url)
        self._url = url.copy_with(path=f"{url.path.rstrip('/')}/chat/completions")
        self._timeout = timeout
        self._shares_client = client is not None
        # No limit: the worker's activity slots are one already, and a call must not time out in a second queue.
        self._client = client or httpx.AsyncClient(limits=httpx.Limits(max_connections=None))

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """The provider that `OPENAI_API_KEY` and `OPENAI_BASE_URL` describe; without the latter, OpenAI itself."""
        return cls(
            api_key=environ.get("OPENAI_API_KEY"), base_url=environ.get("OPENAI_BASE_URL", "").strip() or OPENAI_URL
        )

    def __repr__(self) -> str:
        return f"OpenAIChat(host={self._host!r})"

    @property
    def _host(self) -> str:
        return self._url.netloc.decode()

    async def aclose(self) -> None:
        """Close the connections, unless the client is shared."""
        if not self._shares_client:
            await self._client.aclose()

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Answer `request`.

        Raises:
            ProviderError: the call failed; its kind decides whether Temporal tries again.
        """
        callee = Callee(request.model, self._host, self._key)
        response = await self._post(_body(request), callee)
        if not response.is_success:
            raise refused(callee, response)
        return _answer(response, callee)

    async def _post(self, body: Json, callee: Callee) -> httpx.Response:
        try:
            # httpx bounds each read; only the outer bound ends an answer that trickles.
            async with asyncio.timeout(self._timeout):
                return await self._client.post(
                    self._url,
                    json=body,
                    headers={"Authorization": f"Bearer {self._key}"} if self._key else None,
                    timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS)),
                    follow_redirects=False,
                )
        except (httpx.RequestError, TimeoutError) as error:
            raise unanswered(callee, error, timeout=self._timeout) from error


def _key_problems(key: str | None) -> list[str]:
    if key is None or (key.isascii() and key.isprintable()):
        return []
    return ["the API key holds characters that no HTTP header can carry; set it again without them"]


def _url_problems(base_url: str) -> list[str]:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        return ["the base URL cannot be parsed; write it like 'http://localhost:11434/v1'"]
    if url.userinfo:
        return ["the base URL holds a user or password, which httpx logs; pass a client with `auth` instead"]
    if url.scheme not in ("http", "https") or not url.host:
        return [f"the base URL {base_url!r} has no http:// or https://; write it like 'http://localhost:11434/v1'"]
    return []


def _body(request: ModelRequest) -> Json:
    messages: list[JsonValue] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    messages.extend(_message(message, f"message {number}") for number, message in enumerate(request.messages, start=1))
    body: Json = {"model": request.model, "messages": messages}
    if request.tools:
        # Sorted: the same tools make the same bytes, which providers cache.
        body["tools"] = [_tool(tool) for tool in sorted(request.tools, key=lambda tool: tool.id)]
    return body


def _tool(tool: ToolDescriptor) -> JsonValue:
    function: Json = {"name": tool.id, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _message(message: Message, which: str) -> JsonValue:
    match message.role:
        case Role.USER | Role.SYSTEM:
            return {"role": message.role.value, "content": _content(message, which)}
        case Role.ASSISTANT:
            return _assistant(message, which)
        case Role.TOOL:
            if message.tool_call_id is None:
                problem = f"{which} is a tool's result and names no tool call; set its tool_call_id"
                raise ProviderError(ProviderErrorKind.INVALID_REQUEST, problem)
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": _text(message, which)}
        case _:
            assert_never(message.role)


def _assistant(message: Message, which: str) -> JsonValue:
    text = _text(message, which)
    if not message.tool_calls:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": text or None, "tool_calls": [_call(call) for call in message.tool_calls]}


def _call(call: ToolCall) -> JsonValue:
    arguments: JsonValue = {} if call.arguments is None else call.arguments
    written = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": written}}


def _text(message: Message, which: str) -> str:
    for block in message.content:
        if not isinstance(block, TextBlock | ThinkingBlock):
            raise _unsendable(block, message, which)
    return message.text


def _content(message: Message, which: str) -> JsonValue:
    parts: list[JsonValue] = [part for block in message.content if (part := _part(block, message, which))]
    match parts:
        case []:
            return ""
        case [{"type": "text", "text": text}]:  # a plain string: some servers know no parts
            return text
        case _:
            return parts


def _part(block: ContentBlock, message: Message, which: str) -> JsonValue:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ImageBlock(source=source):
            return {"type": "image_url", "image_url": {"url": _address(source)}}
        case ThinkingBlock():
            return None
        case DocumentBlock() | AudioBlock() | VideoBlock() | ToolUseBlock() | ToolResultBlock():
            raise _unsendable(block, message, which)
        case _:
            assert_never(block)


def _address(source: MediaSource) -> str:
    match source:
        case UrlSource(url=url):
            return url
        case Base64Source(media_type=media_type, data=data):
            return f"data:{media_type};base64,{data}"
        case _:
            assert_never(source)


def _unsendable(block: ContentBlock, message: Message, which: str) -> ProviderError:
    return ProviderError(
        ProviderErrorKind.INVALID_REQUEST,
        f"{which} (role {message.role.value!r}) holds a {block.type!r} block, which OpenAIChat cannot send there; "
        "write it as text, or use a provider that takes it",
    )


class _Read(Wire):
    # Hidden: a validation error is chained to ours, and what it would quote may hold the key.
    model_config = ConfigDict(hide_input_in_errors=True)


class _Function(_Read):
    name: str
    arguments: JsonValue = None


class _Call(_Read):
    id: str | None = None
    function: _Function


class _Said(_Read):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[_Call, ...] | None = None


class _Choice(_Read):
    message: _Said
    finish_reason: str


class _Details(_Read):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(_Read):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Completion(_Read):
    model: str | None = None
    choices: tuple[_Choice, ...] = Field(min_length=1)
    usage: _Usage | None = None


_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
}


def _answer(response: httpx.Response, callee: Callee) -> ModelResponse:
    try:
        completion = _Completion.model_validate_json(response.content)
    except ValidationError as error:
        raise garbage(callee, _problem(error), response.text) from error
    said = completion.choices[0].message
    stop_reason = _stop_reason(completion.choices[0], response, callee)
    return ModelResponse(
        model=completion.model or callee.model,
        text=said.content or said.refusal or "",
        reasoning=said.reasoning_content or said.reasoning or "",
        tool_calls=tuple(_tool_call(call, callee) for call in said.tool_calls or ()),
        stop_reason=stop_reason,
        usage=_used(completion.usage or _Usage()),
        request_id=response.headers.get("x-request-id"),
    )


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))


def _stop_reason(choice: _Choice, response: httpx.Response, callee: Callee) -> StopReason:
    if choice.finish_reason == "content_filter":
        raise ProviderError(
            ProviderErrorKind.CONTENT_FILTERED,
            f"{callee} withheld its answer: the provider's content filter stopped it; change the conversation",
        )
    reason = _STOP_REASONS.get(choice.finish_reason)
    if reason is None:
        # An answer that does not say how it ended may be half of one.
        raise garbage(callee, f"unknown finish_reason {callee.quote(choice.finish_reason)}", response.text)
    if reason is StopReason.TOOL_USE and not choice.message.tool_calls:
        # Taken for the last word, it would end the run without the work it asked for.
        raise garbage(callee, f"finish_reason {choice.finish_reason!r} without tool calls", response.text)
    if reason is StopReason.END_TURN and choice.message.tool_calls:  # some servers say `stop` whatever they ask for
        return StopReason.TOOL_USE
    return reason


def _tool_call(call: _Call, callee: Callee) -> ToolCall:
    name, arguments = call.function.name, call.function.arguments
    if isinstance(arguments, str):
        try:
            arguments = from_json(arguments, allow_inf_nan=False) if arguments.strip() else None
        except ValueError as error:
            problem = f"{callee} called tool {callee.quote(name)} with arguments that are not JSON"
            raise ProviderError(ProviderErrorKind.PROVIDER, f"{problem}; asking again may help") from error
    return ToolCall(id=call.id or "", name=name, arguments=arguments)


def _used(usage: _Usage) -> Usage:
    prompt = usage.prompt_tokens_details or _Details()
    completion = usage.completion_tokens_details or _Details()
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=prompt.cached_tokens,
        thinking_tokens=completion.reasoning_tokens,
    )
