"""The `infer` activity: read the conversation, ask a model, say what went wrong. Retries are Temporal's."""

import asyncio
from collections.abc import Mapping, Set
from datetime import timedelta
from itertools import chain, count

from temporalio import activity
from temporalio.exceptions import ApplicationError

from wakeful.authoring.gate import GateCall
from wakeful.authoring.plugin import PluginLives
from wakeful.authoring.profiles import Profiles
from wakeful.authoring.provider import AnyProvider
from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.hooks import Phase
from wakeful.contract.inference import InferInput, ModelRequest, ModelResponse, RecoveryPlan
from wakeful.contract.names import ACTIVITY_INFER
from wakeful.contract.runs import RunIdentity
from wakeful.permissions.rules import overlaid, rule_problems
from wakeful.registry.registry import Registry
from wakeful_activities.heartbeats import Heartbeats, heartbeating
from wakeful_activities.history_cache import Memory
from wakeful_activities.hooks.gates import Gates, is_gated
from wakeful_activities.hooks.hook_run import HookRun, Hooks, OpenProfiles
from wakeful_activities.inference.answer import begun_before, checked, priced
from wakeful_activities.inference.attempt import Stream, ask, left_behind
from wakeful_activities.inference.build_request import Prepared, Shape, prepare, tools_by_id
from wakeful_activities.inference.hooks import heard, is_hooked, shaped
from wakeful_activities.inference.model_choice import Attempts, Breakers
from wakeful_activities.inference.recovery import interruption_of, noticed
from wakeful_activities.inference.stream_assembly import so_far, synthesized

SQUEEZE = 2.0
"""A conversation that overflows the window is cut to what would fit if estimates were this much too low."""


class Inference:
    """The `infer` activity over the registry's providers and the built-in ones."""

    def __init__(
        self,
        registry: Registry,
        memory: Memory,
        built_in: Mapping[str, AnyProvider],
        breakers: Breakers | None = None,
        profiles: OpenProfiles = Profiles,
        lives: PluginLives | None = None,
    ) -> None:
        self._registry = registry
        self._memory = memory
        self._built_in = built_in
        self._breakers = breakers or Breakers()
        self._gates = Gates(registry)
        self._hooks = Hooks(registry, profiles, lives)

    @activity.defn(name=ACTIVITY_INFER)
    async def infer(self, input: InferInput) -> ModelResponse:
        stream = Stream(activity.info().attempt, left_behind())
        with heartbeating(stream.details) as beats:
            try:
                response = await self._infer(input, stream, beats)
            except asyncio.CancelledError:
                cancelled, came = activity.cancellation_details(), stream.came()
                if came is None or cancelled is None or not cancelled.cancel_requested:
                    raise  # the worker stops, or there is nothing to tell
                return self._priced(so_far(came), stream)
        self._memory.remember_answer(activity.info().activity_id, response)
        return response

    async def _infer(self, input: InferInput, stream: Stream, beats: Heartbeats) -> ModelResponse:
        agent = await self._memory.agent(input.agent)
        if problems := rule_problems(overlaid(agent.permissions, input.permissions).rules):
            raise ApplicationError("; ".join(problems), type="InvalidPermissions", non_retryable=True)
        shape = Shape.of(input, agent)
        prepared = await prepare(self._memory, input, agent, shape)
        hooks = self._begin_hooks(input, agent)
        if hooks is not None:
            wanted = await shaped(hooks, input, shape, prepared.history)
            if hooks.is_over:
                return ModelResponse(model=agent.model.name, effects=hooks.effects, unasked=True)
            if wanted != shape:
                shape, prepared = wanted, await prepare(self._memory, input, agent, wanted)
        attempts = Attempts.of(agent, shape.overrides)
        try:
            response = await self._attempt(prepared.request, attempts, stream, beats)
        except ProviderError as error:
            if error.kind is not ProviderErrorKind.CONTEXT_OVERFLOW or agent.context is None:
                raise _failure(error, attempts, stream) from error
            prepared = await prepare(self._memory, input, agent, shape, squeeze=SQUEEZE)
            try:
                response = await self._attempt(prepared.request, attempts, stream, beats)
            except ProviderError as again:
                raise _failure(again, attempts, stream) from again
        response = with_unique_call_ids(response, prepared.call_ids)
        if prepared.report is not None and not response.interruptions:
            response = response.model_copy(update={"context": prepared.report})
        return await self._judged(response, input, agent, prepared, hooks)

    def _begin_hooks(self, input: InferInput, agent: ResolvedAgent) -> HookRun | None:
        if not is_hooked(agent, input):
            return None
        return self._hooks.begin(agent, _identity(input, agent), input.step, input.state)

    async def _judged(
        self,
        response: ModelResponse,
        input: InferInput,
        agent: ResolvedAgent,
        prepared: Prepared,
        hooks: HookRun | None,
    ) -> ModelResponse:
        """The answer with what hooks, gates and the output type say of it. If it is not taken, only hooks speak."""
        rules = input.permissions
        if hooks is not None:
            response = await heard(hooks, response)
            rules = (*rules, *hooks.asked.permissions)
            if hooks.is_over or hooks.asked.retry is not None:
                return response.model_copy(update={"effects": hooks.effects})
        if response.tool_calls and (is_gated(agent, rules) or agent.has_hooks(Phase.TOOL_GATE)):
            verdicts = await self._gates.verdicts(agent, rules, _asked(response, input, agent), hooks)
            response = response.model_copy(update={"verdicts": verdicts})
        if agent.output is not None:
            begun = begun_before(prepared.history) if input.continuing else ""
            response = checked(response, agent.output, self._registry.output_check(agent), begun=begun)
        return response if hooks is None else response.model_copy(update={"effects": hooks.effects})

    async def _attempt(
        self, request: ModelRequest, attempts: Attempts, stream: Stream, beats: Heartbeats
    ) -> ModelResponse:
        """Ask the model whose turn it is. Calls that are complete already are not asked for again."""
        stream.asked = attempts.model(failures(stream), lambda _: True)
        if (earlier := stream.earlier) is not None:
            interruption = interruption_of(earlier)
            if interruption.plan is RecoveryPlan.SYNTHESIZE_TOOL_USE:
                return self._priced(synthesized(earlier, interruption), stream)
        model = attempts.model(failures(stream), lambda binding: self._breakers.is_available(_key(binding)))
        if model is None:
            message = "all models unavailable (circuit breakers open)"
            raise ProviderError(ProviderErrorKind.ALL_MODELS_UNAVAILABLE, message)
        try:
            return await self.ask(model, request, attempts.policy, stream, beats)
        except ProviderError as error:
            came = stream.broke(error) if error.kind.transient else None
            if came is None:
                raise
            beats.beat()  # the next attempt goes on from here
            interruption = interruption_of(came)
            if interruption.plan is RecoveryPlan.SYNTHESIZE_TOOL_USE:
                return self._priced(synthesized(came, interruption), stream)
            raise

    async def ask(
        self, model: ModelBinding, request: ModelRequest, policy: RetryPolicy, stream: Stream, beats: Heartbeats
    ) -> ModelResponse:
        """Ask one model, at its price, and let its breaker know how that went."""
        key, provider = _key(model), self.provider(model)
        stream.asked = model
        named = request.model_copy(update={"model": model.name})
        self._breakers.begin(key)
        try:
            response = await ask(provider, named, policy, stream, beats)
        except ProviderError as error:
            if error.kind.transient:
                self._breakers.failed(key)
            else:
                self._breakers.released(key)
            raise
        except BaseException:
            self._breakers.released(key)
            raise
        self._breakers.succeeded(key)
        return self._priced(response, stream)

    def _priced(self, response: ModelResponse, stream: Stream) -> ModelResponse:
        """With what it has cost, over all attempts at it."""
        price = self._registry.price(stream.asked) if stream.asked is not None else None
        return response.model_copy(update={"usage": priced(response.usage, price)})

    def provider(self, binding: ModelBinding) -> AnyProvider:
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


def _asked(response: ModelResponse, input: InferInput, agent: ResolvedAgent) -> list[GateCall]:
    """The calls of an answer, as gates see them before any of them is made."""
    tools, identity = tools_by_id(input, agent), _identity(input, agent)
    return [
        GateCall(
            identity=identity,
            call_id=call.id,
            tool_name=call.name,
            arguments=call.arguments,
            tool=tools.get(call.name),
        )
        for call in response.tool_calls
    ]


def _identity(input: InferInput, agent: ResolvedAgent) -> RunIdentity:
    info = activity.info()
    return input.identity or RunIdentity(
        thread_id=info.workflow_id or "", run_id=info.workflow_run_id or "", agent_id=agent.agent_id
    )


def failures(stream: Stream) -> int:
    """How many attempts have failed before they got anything; those that broke off later have a budget of their own."""
    earlier = stream.earlier
    return max(0, stream.attempt - 1 - (len(earlier.interruptions) + 1 if earlier else 0))


def _failure(error: ProviderError, attempts: Attempts, stream: Stream) -> ApplicationError:
    """What Temporal is told: whether to try again, and when."""
    failed, came = failures(stream), stream.broke(error) if error.kind.transient else None
    message = f"inference failed: {error}"
    if came is None:
        is_final = not error.kind.transient or attempts.is_last(failed)
    else:
        is_final = noticed(came) + 1 > attempts.policy.max_stream_retries
        if is_final:
            message = f"inference failed: stream interrupted ({came.broken}): {error}"
    delay = None if is_final else timedelta(seconds=attempts.wait(failed, error))
    return ApplicationError(message, type=error.kind, non_retryable=is_final, next_retry_delay=delay)


def _key(model: ModelBinding) -> str:
    return f"{model.provider}/{model.name}"


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
