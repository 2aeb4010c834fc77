"""Call a model of pydantic-ai: open its stream, forward what arrives, and find out whether the answer is complete."""

import contextlib
from collections.abc import AsyncGenerator, Iterator

import httpx
import httpx2
from pydantic_ai import messages as ai
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.models.function import FunctionModel

from wakeful.contract.errors import RETRY_MAY_HELP, ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest
from wakeful.contract.streaming import StartPart, StopPart, StreamPart, UsagePart
from wakeful_activities.bounded_http import IDENTITY, BoundedBody, TooLong, bound_response, check_encoding
from wakeful_activities.providers.pydantic_ai.answers import AnswerReader, is_cut_off, stop_reason, used
from wakeful_activities.providers.pydantic_ai.failures import TRANSLATED, endpoint_of, translated
from wakeful_activities.providers.pydantic_ai.requests import AIRequest, ai_request
from wakeful_activities.providers.shared.failures import RESET, Endpoint

Opened = StreamedResponse | ai.ModelResponse
"""A stream that has begun, or the whole answer of a model that does not stream."""


async def answer_parts(
    model: Model, request: ModelRequest, *, needs_finish_reason: bool
) -> AsyncGenerator[StreamPart, None]:
    """The parts of the model's answer, ending with `StopPart`.

    Raises:
        ProviderError: the call failed, or the answer is not complete.
    """
    _bound_client(model)
    endpoint, opened = endpoint_of(model), None
    reader = AnswerReader(endpoint)
    try:
        async with contextlib.AsyncExitStack() as stack:
            opened = await _open(model, request, stack)
            async for part in _forwarded(opened, reader):
                yield part
        response = _complete(opened, endpoint, needs_finish_reason=needs_finish_reason)
        stop = stop_reason(response, endpoint)
    except (ProviderError, *TRANSLATED) as error:
        if opened is not None:
            for part in _usage(opened):  # it is paid for, although the answer is not complete
                yield part
        if isinstance(error, ProviderError):
            raise
        raise translated(error, endpoint, has_begun=reader.has_begun) from None
    for part in (*reader.finish(), *_usage(response), StopPart(stop)):
        yield part


def _bound_client(model: Model) -> None:
    """Bound what the HTTP client of a model reads, unless the user has made the client: the SDKs read lines whole."""
    client = getattr(model.provider, "_own_http_client", None)
    hook = {httpx.AsyncClient: bound_response, httpx2.AsyncClient: _bound_response}.get(type(client))
    if client is None or hook is None or hook in client.event_hooks["response"]:
        return
    client.headers.update(IDENTITY)
    client.event_hooks = {**client.event_hooks, "response": [*client.event_hooks["response"], hook]}


class _Body(BoundedBody, httpx2.AsyncByteStream):
    pass


async def _bound_response(response: httpx2.Response) -> None:
    try:
        check_encoding(response.headers)
    except TooLong as error:
        raise httpx2.RemoteProtocolError(f"the answer is not read: {error}") from None
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Body(response.stream, response.headers, httpx2.RemoteProtocolError)


async def _open(model: Model, request: ModelRequest, stack: contextlib.AsyncExitStack) -> Opened:
    try:
        return await _called(model, ai_request(request, model), stack)
    except UserError:
        if request.output is None:
            raise
        # Some models take an output type or tools, not both; their profiles do not say so.
        return await _called(model, ai_request(request, model, has_native_output=False), stack)


async def _called(model: Model, sent: AIRequest, stack: contextlib.AsyncExitStack) -> Opened:
    if not isinstance(model, FunctionModel) or model.stream_function is not None:
        with contextlib.suppress(NotImplementedError):  # a model that does not stream
            stream = model.request_stream(sent.messages, sent.settings, sent.parameters)
            return await stack.enter_async_context(stream)
    return await model.request(sent.messages, sent.settings, sent.parameters)


async def _forwarded(opened: Opened, reader: AnswerReader) -> AsyncGenerator[StreamPart, None]:
    if isinstance(opened, ai.ModelResponse):
        yield StartPart(opened.model_name, opened.provider_response_id)
        for part in reader.read_response(opened):
            yield part
        return
    reader.system = opened.canonical_system
    is_started = False
    async for event in opened:
        if not is_started:
            is_started = True
            yield StartPart(opened.model_name, opened.provider_response_id)
        for part in reader.read_event(event):
            yield part


def _complete(opened: Opened, endpoint: Endpoint, *, needs_finish_reason: bool) -> ai.ModelResponse:
    if isinstance(opened, ai.ModelResponse):
        return opened
    response = opened.get()
    if needs_finish_reason and is_cut_off(response):
        advice = "if this server never sends one, register the model with needs_finish_reason=False"
        message = f"the answer of {endpoint} ended early, without a finish reason; {RETRY_MAY_HELP}; {advice}"
        raise ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, message, cause=RESET)
    return response


def _usage(opened: Opened) -> Iterator[StreamPart]:
    usage = used(opened.usage)
    if usage is not None:
        yield UsagePart(usage)
