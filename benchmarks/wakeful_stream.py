"""Wakeful's side of the stream benchmarks: agents over one Chat Completions API, with and without streaming."""

from benchmarks import wakeful_agent
from benchmarks.workload import COMPLETE, HEARTBEAT_TIMEOUT, STREAMED, WAKEFUL, WATCHED
from wakeful import Agent, ModelRequest, ModelResponse, OpenAIChat, Registry
from wakeful.contract.streaming import StartPart, StopPart, TextPart, UsagePart


class BufferingProvider:
    """A provider that buffers a stream and returns it as one response, with the same request id and usage."""

    def __init__(self, chat: OpenAIChat) -> None:
        self._chat = chat

    async def complete(self, request: ModelRequest) -> ModelResponse:
        response, text = ModelResponse(model=request.model), ""
        async for part in self._chat.stream(request):
            match part:
                case StartPart(model=model, request_id=request_id):
                    names = {"model": model or response.model, "request_id": request_id or response.request_id}
                    response = response.model_copy(update=names)
                case TextPart(text=delta):
                    text += delta
                case UsagePart(usage=usage):
                    response = response.model_copy(update={"usage": usage})
                case StopPart(reason=reason):
                    response = response.model_copy(update={"stop_reason": reason})
                case _:
                    raise AssertionError(f"the script streams only text, but the provider sent {part!r}")
        return response.model_copy(update={"text": text})


def registry_for(url: str) -> Registry:
    chat = OpenAIChat(api_key=None, base_url=url)
    seconds = HEARTBEAT_TIMEOUT.total_seconds()
    compared = [Agent(id=id, model=id, inference_heartbeat_timeout=seconds) for id in (STREAMED, COMPLETE)]
    watched = Agent(id=WATCHED, model=STREAMED, tools=wakeful_agent.tools(), inference_heartbeat_timeout=seconds)
    return Registry(
        agents=[*compared, watched],
        models={id: f"{id}/{WAKEFUL}" for id in (STREAMED, COMPLETE)},
        providers={STREAMED: chat, COMPLETE: BufferingProvider(chat)},
    )
