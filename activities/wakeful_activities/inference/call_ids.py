"""Tool call ids: Wakeful's own, and the provider's, which are used only in requests to that provider."""

from collections.abc import Mapping

from wakeful.contract import ids
from wakeful.contract.agents import ModelBinding
from wakeful.contract.inference import ModelRequest, ModelResponse
from wakeful.contract.messages import Message, ToolCall
from wakeful.contract.per_message import PerMessage

Renamed = tuple[list[str | None], Message]
"""A message with other call ids, and those ids."""

_RENAMED = PerMessage[Renamed]()
"""The messages as they were last sent: the next request of the same thread, to the same provider, has the same ids."""


def with_own_ids(
    response: ModelResponse, model: ModelBinding, *, step_label: str, calls_before: int = 0
) -> ModelResponse:
    """The answer of a provider that does not stream, with our ids; the provider's are stored beside them."""
    if not response.tool_calls:
        return response
    calls = tuple(
        ToolCall(
            id=ids.call_id(step_label, number),
            name=call.name,
            arguments=call.arguments,
            provider=model.provider if call.id else None,
            provider_id=call.id or None,
        )
        for number, call in enumerate(response.tool_calls, start=calls_before + 1)
    )
    return response.model_copy(update={"tool_calls": calls})


def with_provider_ids(request: ModelRequest, provider: str) -> ModelRequest:
    """Replace our call ids in a request by the ids that this provider gave to the calls.

    Calls of other providers, and calls whose provider id is missing or used already, keep our id: a provider refuses
    a request in which two calls have the same id.
    """
    provider_ids = _provider_ids(request, provider)
    if not provider_ids:
        return request
    messages = tuple(_with_ids(message, provider_ids) for message in request.messages)
    return request.model_copy(update={"messages": messages})


def _provider_ids(request: ModelRequest, provider: str) -> dict[str, str]:
    """The provider's ids by ours."""
    calls = [call for message in request.messages for call in message.tool_calls]
    used = {call.id for call in calls}  # a provider's id may look like one of ours
    provider_ids: dict[str, str] = {}
    for call in calls:
        if call.provider == provider and call.provider_id and call.provider_id not in used:
            used.add(call.provider_id)
            provider_ids[call.id] = call.provider_id
    return provider_ids


def _with_ids(message: Message, provider_ids: Mapping[str, str]) -> Message:
    # Of every message of the conversation, at every model call: lists, because generators take twice as long.
    own = [message.tool_call_id, *[call.id for call in message.tool_calls]]
    wanted = [id and provider_ids.get(id, id) for id in own]
    if wanted == own:
        return message
    used, renamed = _RENAMED.get(message, lambda message: _renamed(message, wanted))
    return renamed if used == wanted else _renamed(message, wanted)[1]


def _renamed(message: Message, wanted: list[str | None]) -> Renamed:
    calls = tuple(call.model_copy(update={"id": id}) for call, id in zip(message.tool_calls, wanted[1:], strict=True))
    return wanted, message.model_copy(update={"tool_call_id": wanted[0], "tool_calls": calls})
