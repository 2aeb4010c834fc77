"""The `infer` activity: build the request, call a model, check its answer. Temporal does the retries."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial

from pydantic import JsonValue
from temporalio import activity
from temporalio.exceptions import ApplicationError

from wakeful.authoring.gate import GateCall
from wakeful.authoring.provider import AnyProvider
from wakeful.context.rejected import reductions, without
from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.hooks import Phase
from wakeful.contract.inference import InferInput, ModelRequest, ModelResponse, RecoveryPlan
from wakeful.contract.messages import LeftOut, Message
from wakeful.contract.missing import NOT_ON_THIS_WORKER, Missing
from wakeful.contract.names import ACTIVITY_INFER
from wakeful.contract.transcript import assistant_message
from wakeful.permissions.rules import MAX_RUN_RULES_COST, overlaid, rule_problems
from wakeful.registry.registry import Registry
from wakeful.telemetry.telemetry import OFF, Telemetry
from wakeful_activities.error_texts import failure_of
from wakeful_activities.heartbeats import HeartbeatIntervals, Heartbeats, heartbeating
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.hooks.gates import Gates, is_gated
from wakeful_activities.hooks.hook_run import HookRun, Hooks
from wakeful_activities.inference.answer import continued_text, recordable, with_output
from wakeful_activities.inference.attempt import Stream, earlier_attempts
from wakeful_activities.inference.breakers import CircuitBreakers
from wakeful_activities.inference.build_request import (
    BuiltRequest,
    RequestShape,
    build_request,
    identity_of,
    tools_by_id,
)
from wakeful_activities.inference.chat_telemetry import ChatTelemetry
from wakeful_activities.inference.hooks import after_inference, after_verdicts, before_inference, has_hooks
from wakeful_activities.inference.model_choice import ModelChoice
from wakeful_activities.inference.models import Models, ProviderMissing
from wakeful_activities.inference.patience import HeldBack, choose_model, failure, too_many_lost, unexpected
from wakeful_activities.inference.recovery import interruption_of
from wakeful_activities.inference.rule_warnings import RuleWarnings
from wakeful_activities.inference.stream_assembly import partial_response, synthesized_response
from wakeful_activities.other_workers import Lacking, OtherWorkers, waited

MAX_CUTS = 6
"""How often a request that overflows the model's window is cut to half its size."""


class InferActivity:
    """The `infer` activity over the registry's providers and the built-in ones."""

    def __init__(
        self,
        registry: Registry,
        cache: HistoryCache,
        hooks: Hooks,
        gates: Gates,
        built_in: Mapping[str, AnyProvider],
        breakers: CircuitBreakers | None = None,
        intervals: HeartbeatIntervals | None = None,
        others: OtherWorkers | None = None,
        telemetry: Telemetry = OFF,
    ) -> None:
        self.telemetry = telemetry
        self._registry = registry
        self._cache = cache
        self._hooks = hooks
        self._gates = gates
        self._rule_warnings = RuleWarnings()
        self.intervals = intervals
        self.others = others or OtherWorkers(registry)
        self.models = Models(registry, built_in, breakers, hooks.dependencies, telemetry.metrics)

    @activity.defn(name=ACTIVITY_INFER)
    async def infer(self, input: InferInput) -> ModelResponse:
        with ChatTelemetry(self.telemetry) as telemetry:
            response = await self._recovered(input, telemetry)
            telemetry.answered(response)
        return response

    async def _recovered(self, input: InferInput, telemetry: ChatTelemetry) -> ModelResponse:
        """The answer, also one that was cut short by a cancellation, or an error that tells Temporal what to do."""
        info = activity.info()
        label = _step_label(info.activity_id, input.lineage)
        stream = Stream(label, info.attempt, *earlier_attempts(), telemetry=telemetry)
        if (lost := too_many_lost(stream)) is not None:
            raise lost
        with heartbeating(stream.heartbeat, self.intervals, live=input.live) as beats:
            try:
                response = await self._infer(input, stream, beats)
            except ApplicationError as error:
                if error.non_retryable or error.type == NOT_ON_THIS_WORKER or stream.outage is not None:
                    raise
                raise unexpected(error, stream) from None  # such as a history that does not match
            except asyncio.CancelledError:
                cancelled, arrived = activity.cancellation_details(), stream.arrived()
                if arrived is None or cancelled is None or not cancelled.cancel_requested:
                    beats.beat()  # the worker shuts down, or nothing has arrived: the next attempt continues from here
                    raise
                return self.models.priced(partial_response(arrived), stream.model)
            except Exception as error:  # the activity's boundary: Temporal could not keep its whole traceback
                raise unexpected(error, stream) from None
        self._cache.put_answer(info.activity_id, response, length=input.transcript.length)
        return response

    async def _infer(self, input: InferInput, stream: Stream, beats: Heartbeats) -> ModelResponse:
        agent = await self._cache.agent(input.agent)
        rules = overlaid(agent.permissions, input.permissions).rules
        if problems := rule_problems(rules, most=MAX_RUN_RULES_COST):
            what = "a permission rule of the run cannot be read"
            raise failure_of(what, "; ".join(problems), type="InvalidPermissions", non_retryable=True)
        self._rule_warnings.warn(agent, input)
        shape = RequestShape.of(input, agent)
        await self._check_worker(agent, ModelChoice.of(agent, shape.overrides), stream, beats)
        built = await build_request(self._cache, input, agent, shape)
        hooks = await self._begin_hooks(input, agent)
        if hooks is not None:
            changed = await before_inference(hooks, input, shape, built.history)
            if hooks.ends_run:
                return ModelResponse(model=agent.model.name, effects=hooks.effects, skipped=True)
            if changed != shape:
                shape, built = changed, await build_request(self._cache, input, agent, changed)
        choice = ModelChoice.of(agent, shape.overrides)
        stream.telemetry.about(agent.agent_id, choice.models[0])

        async def shorten(tokens: int) -> BuiltRequest:
            return await build_request(self._cache, input, agent, shape, limit=tokens)

        try:
            response, built = await self._answer(built, shorten, choice, stream, beats)
        except ProviderError as error:
            raise self._failure(error, choice, stream, beats) from None
        except ProviderMissing as error:
            raise await self._provider_missing(error.lacking, stream, beats) from None
        if built.report is not None and not response.interruptions:
            response = response.model_copy(update={"context": built.report})
        return recordable(await self._checked(recordable(response), input, agent, built, hooks))

    async def _check_worker(self, agent: ResolvedAgent, choice: ModelChoice, stream: Stream, beats: Heartbeats) -> None:
        """Leave the inference to other workers, before it costs anything, if this one cannot finish it."""
        try:
            self.models.check(choice.order(stream.failures)[0])
        except ProviderMissing as error:
            raise await self._provider_missing(error.lacking, stream, beats) from None
        if (lacking := self.others.lacking(agent)) is not None:
            # If the patience is over, the gate blocks calls, and the plugin fails as its `on_error` says.
            await self._leave(lacking, stream, beats)

    async def _provider_missing(self, lacking: Lacking, stream: Stream, beats: Heartbeats) -> ApplicationError:
        patience = await self._leave(lacking, stream, beats)
        return ApplicationError(f"{lacking.problem}{waited(patience)}", type="ProviderNotFound", non_retryable=True)

    async def _leave(self, lacking: Lacking, stream: Stream, beats: Heartbeats) -> timedelta:
        def heartbeat(missing: Missing) -> None:
            stream.missing = missing
            beats.beat()

        return await self.others.leave(lacking, heartbeat=heartbeat)

    async def _begin_hooks(self, input: InferInput, agent: ResolvedAgent) -> HookRun | None:
        if not has_hooks(agent, input):
            return None
        metadata = await self._cache.metadata(input.metadata)
        return self._hooks.begin(agent, identity_of(input, agent), input.step, input.state, metadata)

    async def _answer(
        self,
        built: BuiltRequest,
        shorten: Callable[[int], Awaitable[BuiltRequest]],
        choice: ModelChoice,
        stream: Stream,
        beats: Heartbeats,
    ) -> tuple[ModelResponse, BuiltRequest]:
        """The answer, and the request that got it: what is too long is cut, and what the provider rejects is left out.

        Raises:
            ProviderError: the call failed; for content that is rejected in any case, with the first rejection.
        """
        left: tuple[LeftOut, ...] = ()
        rejected, less, cuts = None, reductions(built.request.messages), 0
        while True:
            messages = without(built.request.messages, left)
            request = built.request.model_copy(update={"messages": messages})
            try:
                response = await self._attempt(request, choice, stream, beats)
                return response.model_copy(update={"left_out": left}), built
            except ProviderError as error:
                match error.kind:
                    case ProviderErrorKind.CONTEXT_OVERFLOW if cuts < MAX_CUTS:
                        cuts += 1
                        shorter = await shorten(built.tokens // 2)
                        if shorter.tokens >= built.tokens:
                            raise
                        built, left, less = shorter, (), reductions(shorter.request.messages)
                    case ProviderErrorKind.INVALID_REQUEST | ProviderErrorKind.CONTENT_FILTERED:
                        rejected = rejected or error
                        if not (left := next(less, ())):
                            raise rejected from None
                    case _:
                        raise

    async def _attempt(
        self, request: ModelRequest, choice: ModelChoice, stream: Stream, beats: Heartbeats
    ) -> ModelResponse:
        """Call a model, unless an earlier attempt left complete tool calls behind: those are the answer."""
        stream.model = choice.order(stream.failures)[0]
        if (earlier := stream.earlier) is not None:
            interruption = interruption_of(earlier)
            if interruption.plan is RecoveryPlan.SYNTHESIZE_TOOL_USE:
                return self.models.priced(synthesized_response(earlier, interruption), stream.model)
        model = choose_model(choice, stream, self.models.wait)
        if model is None:
            raise self._held_back(choice)
        try:
            return await self.models.call(model, request, choice.policy, stream, beats)
        except ProviderError as error:
            arrived = stream.interrupted(error) if error.kind.transient else None
            if arrived is None:
                raise
            interruption = interruption_of(arrived)
            if interruption.plan is RecoveryPlan.SYNTHESIZE_TOOL_USE:
                return self.models.priced(synthesized_response(arrived, interruption), stream.model)
            raise

    def _held_back(self, choice: ModelChoice) -> HeldBack:
        """The error if every model has to wait: it quotes the failure of the one that may be called first."""
        model = min(choice.models, key=self.models.wait)
        wait, last = self.models.wait(model), self.models.last_failure(model)
        assert last is not None  # it has opened the breaker
        why = f"it has failed {last.failures} times in a row on this worker, at last: {last.message}"
        return HeldBack(last.kind, f"model {model.name!r} is not called for another {wait:.1f} s: {why}", wait=wait)

    def _failure(
        self, error: ProviderError, choice: ModelChoice, stream: Stream, beats: Heartbeats
    ) -> ApplicationError:
        """The activity's failure; the next attempt finds in the heartbeat what has arrived."""
        failed = failure(error, choice, stream, self.models.wait)
        beats.beat()
        return failed

    async def _checked(
        self,
        response: ModelResponse,
        input: InferInput,
        agent: ResolvedAgent,
        built: BuiltRequest,
        hooks: HookRun | None,
    ) -> ModelResponse:
        """The answer as hooks leave it, with the gates' verdicts on its calls and its parsed output."""
        rules = input.permissions
        if hooks is not None:
            hooks.read_transcript = partial(self._transcript, input, assistant_message(response))
            response = await after_inference(hooks, response)
            rules = (*rules, *hooks.requests.permissions)
            if hooks.ends_run or hooks.requests.retry is not None:  # the answer is discarded: nothing else checks it
                return response.model_copy(update={"effects": hooks.effects})
        if response.tool_calls and (is_gated(agent, rules) or agent.has_hooks(Phase.TOOL_GATE)):
            calls = _gate_calls(response, input, agent, await self._cache.metadata(input.metadata))
            verdicts = await self._gates.verdicts(agent, rules, calls, hooks, questions=input.questions)
            if hooks is not None and not hooks.ends_run:
                tools = tools_by_id(input, agent)
                verdicts = await after_verdicts(hooks, response.tool_calls, verdicts, tools, agent.tool_mode)
            response = response.model_copy(update={"verdicts": verdicts})
        if agent.output is not None:
            before = continued_text(built.history) if input.continuing else ""
            response = with_output(response, agent.output, self._registry.output_check(agent), before=before)
        return response if hooks is None else response.model_copy(update={"effects": hooks.effects})

    async def _transcript(self, input: InferInput, answer: Message, last: int | None = None) -> tuple[Message, ...]:
        """The newest messages of the conversation, or all, with the answer."""
        wanted = None if last is None else max(0, last - 1)
        known = await self._cache.transcript(
            input, is_enough=lambda newest: wanted is not None and newest.length - newest.start >= wanted
        )
        first = known.start if wanted is None else max(known.start, known.length - wanted)
        return (*known.since(first), *(() if last == 0 else (answer,)))


def _step_label(activity_id: str, lineage: str) -> str:
    """The thread's step that the activity is for, as call ids show it."""
    work = ids.parse_work(activity_id)
    return ids.step_label(work.step if isinstance(work, ids.Infer) else 0, lineage)


def _gate_calls(
    response: ModelResponse, input: InferInput, agent: ResolvedAgent, metadata: Mapping[str, JsonValue]
) -> list[GateCall]:
    """The calls of an answer, as gates see them before any of them runs."""
    tools, identity = tools_by_id(input, agent), identity_of(input, agent)
    return [
        GateCall(
            identity=identity,
            call_id=call.id,
            tool_name=call.name,
            arguments=call.arguments,
            tool=tools.get(call.name),
            metadata=metadata,
        )
        for call in response.tool_calls
    ]
