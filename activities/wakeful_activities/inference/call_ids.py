"""Wakeful's own ids of tool calls, and the provider's ids, which only requests to that provider use."""

from collections.abc import Mapping

from wakeful.contract import ids
from wakeful.contract.agents import ModelBinding
from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.contract.messages import Message, ToolCall


def with_own_ids(response: ModelResponse, model: ModelBinding, *, step: int, calls_before: int = 0) -> ModelResponse:
    """An answer of a provider that does not stream, with our ids; the provider's are kept beside them."""
    if not response.tool_calls:
        return response
    calls = tuple(
        ToolCall(
            id=ids.call_id(step, number),
            name=call.name,
            arguments=call.arguments,
            provider=model.provider if call.id else None,
            provider_id=call.id or None,
        )
        for number, call in enumerate(response.tool_calls, start=calls_before + 1)
    )
    return response.model_copy(update={"tool_calls": calls})


def with_provider_ids(request: ModelRequest, provider: str) -> ModelRequest:
    """The request with the ids that this provider knows its calls by.

    A call of another provider, and one whose id the provider repeats, goes by our id: ids must differ in a request.
    """
    known = _provider_ids(request, provider)
    if not known:
        return request
    messages = tuple(_with_ids(message, known) for message in request.messages)
    return request.model_copy(update={"messages": messages})


def _provider_ids(request: ModelRequest, provider: str) -> dict[str, str]:
    known: dict[str, str] = {}
    taken: set[str] = set()
    for message in request.messages:
        for call in message.tool_calls:
            is_usable = call.provider == provider and call.provider_id and call.provider_id not in taken
            if is_usable and call.provider_id is not None:
                taken.add(call.provider_id)
                known[call.id] = call.provider_id
    return known


def _with_ids(message: Message, known: Mapping[str, str]) -> Message:
    if message.tool_call_id is not None and message.tool_call_id in known:
        return message.model_copy(update={"tool_call_id": known[message.tool_call_id]})
    if not any(call.id in known for call in message.tool_calls):
        return message
    calls = tuple(call.model_copy(update={"id": known.get(call.id, call.id)}) for call in message.tool_calls)
    return message.model_copy(update={"tool_calls": calls})
