"""The `infer` activity: read the conversation, ask the provider, translate its failure. Retries are Temporal's."""

from collections.abc import Mapping, Set
from datetime import timedelta
from itertools import chain, count

from opentelemetry import trace
from temporalio import activity
from temporalio.exceptions import ApplicationError

from wakeful.context.messages import by_place, place
from wakeful.contract.agents import ModelBinding, ResolvedAgent
from wakeful.contract.context import ContextReport
from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import InferInput, ModelRequest, ModelResponse
from wakeful.contract.names import ACTIVITY_INFER
from wakeful.provider import Provider
from wakeful.registry import Registry
from wakeful_activities.heartbeats import heartbeating
from wakeful_activities.inference.window import Window
from wakeful_activities.memory import Memory

_tracer = trace.get_tracer("wakeful")


class Inference:
    """The `infer` activity over the registry's providers and the built-in ones."""

    def __init__(self, registry: Registry, memory: Memory, built_in: Mapping[str, Provider]) -> None:
        self._registry = registry
        self._memory = memory
        self._built_in = built_in

    @activity.defn(name=ACTIVITY_INFER)
    async def infer(self, input: InferInput) -> ModelResponse:
        with heartbeating():
            agent = await self._memory.agent(input.agent)
            request, report, taken = await self._request(input, agent)
            response = with_unique_call_ids(await ask(self.provider(agent.model), request), taken)
            if report is not None:
                response = response.model_copy(update={"context": report})
        self._memory.remember_answer(activity.info().activity_id, response)
        return response

    async def _request(
        self, input: InferInput, agent: ResolvedAgent
    ) -> tuple[ModelRequest, ContextReport | None, Set[str]]:
        """The request, how it fits the window, and the call ids that its thread has used."""
        overridden = {tool.id for tool in input.frontend_tools}
        tools = (*input.frontend_tools, *(tool for tool in agent.tools if tool.id not in overridden))
        tools = tuple(sorted(tools, key=lambda tool: tool.id))
        emitted, report = by_place(input.context), None
        if agent.context is None:
            conversation = await self._memory.transcript(input)
            history = conversation.since(0)
        else:
            mark = await self._memory.mark(input.compaction) if input.compaction else None
            window = Window(agent.context, mark, input.factor or 1.0)
            conversation = await self._memory.transcript(input, enough=window.is_enough)
            history, report = window.view(conversation, tools, agent.instructions, emitted)
        request = ModelRequest(
            model=agent.model.name,
            instructions=agent.instructions,
            messages=place((), history, emitted),
            tools=tools,
        )
        return request, report, conversation.call_ids

    def provider(self, binding: ModelBinding) -> Provider:
        provider = self._registry.provider(binding) or self._built_in.get(binding.provider)
        if provider is None:
            known = ", ".join(sorted({*self._registry.providers, *self._built_in})) or "none"
            raise ApplicationError(
                f"model {binding.id!r} needs provider {binding.provider!r}, which this worker does not have; "
                f"known: {known}",
                type="ProviderNotFound",
                non_retryable=True,
            )
        return provider


async def ask(provider: Provider, request: ModelRequest) -> ModelResponse:
    with _tracer.start_as_current_span(f"chat {request.model}", kind=trace.SpanKind.CLIENT) as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.request.model", request.model)
        try:
            response = await provider.complete(request)
        except ProviderError as error:
            delay = None if error.retry_after is None else timedelta(seconds=error.retry_after)
            raise ApplicationError(
                f"inference failed: {error}",
                type=error.kind,
                non_retryable=not error.kind.transient,
                next_retry_delay=delay,
            ) from error
        usage = response.usage
        span.set_attribute("gen_ai.response.model", response.model)
        span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens or 0)
        span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens or 0)
        return response


def with_unique_call_ids(response: ModelResponse, used: Set[str]) -> ModelResponse:
    """Give every call an id that its thread has not seen; some providers repeat them or leave them out."""
    taken: set[str] = set()
    calls = []
    for call in response.tool_calls:
        id = _untaken(call.id, taken, used)
        taken.add(id)
        calls.append(call if id == call.id else call.model_copy(update={"id": id}))
    return response.model_copy(update={"tool_calls": tuple(calls)})


def _untaken(id: str, *taken: Set[str]) -> str:
    numbered = (f"{id or 'call'}_{n}" for n in count(2))
    candidates = chain([id] if id else [], numbered)
    return next(other for other in candidates if not any(other in ids for ids in taken))
