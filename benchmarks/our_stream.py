"""Wakeful's side of streams: agents over one Chat Completions API, one of which never sees an answer come."""

from benchmarks import ours
from benchmarks.sides import COMPLETE, HEARTBEAT_TIMEOUT, OURS, STREAMED, WATCHED
from wakeful import Agent, ModelRequest, ModelResponse, OpenAIChat, Registry
from wakeful.contract.streaming import StartPart, StopPart, TextPart, UsagePart


class Listener:
    """A provider that hears a stream out and tells it as one whole answer, with all that it said of itself."""

    def __init__(self, chat: OpenAIChat) -> None:
        self._chat = chat

    async def complete(self, request: ModelRequest) -> ModelResponse:
        response, text = ModelResponse(model=request.model), ""
        async for part in self._chat.stream(request):
            match part:
                case StartPart(model=model, request_id=request_id):
                    heard = {"model": model or response.model, "request_id": request_id or response.request_id}
                    response = response.model_copy(update=heard)
                case TextPart(text=words):
                    text += words
                case UsagePart(usage=usage):
                    response = response.model_copy(update={"usage": usage})
                case StopPart(reason=reason):
                    response = response.model_copy(update={"stop_reason": reason})
                case _:
                    raise AssertionError(f"the script has only text, and this came: {part!r}")
        return response.model_copy(update={"text": text})


def registry_over(url: str) -> Registry:
    chat = OpenAIChat(api_key=None, base_url=url)
    seconds = HEARTBEAT_TIMEOUT.total_seconds()
    alike = [Agent(id=id, model=id, inference_heartbeat_timeout=seconds) for id in (STREAMED, COMPLETE)]
    return Registry(
        agents=[*alike, Agent(id=WATCHED, model=STREAMED, tools=ours.tools(), inference_heartbeat_timeout=seconds)],
        models={id: f"{id}/{OURS}" for id in (STREAMED, COMPLETE)},
        providers={STREAMED: chat, COMPLETE: Listener(chat)},
    )
