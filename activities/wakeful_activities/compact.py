"""The `compact` activity: a model summarises the oldest messages; requests then include the summary instead."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

from wakeful.context.compaction import Skipped, conclude, find_boundary, summary_request
from wakeful.contract.agents import RetryPolicy
from wakeful.contract.context import ContextPolicy
from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import CompactInput, CompactOutput, InferInput, ModelRequest
from wakeful.contract.mail import with_escaped_tags
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.model_settings import ModelSettings
from wakeful.contract.names import ACTIVITY_COMPACT
from wakeful_activities.error_texts import shortened
from wakeful_activities.heartbeats import heartbeating
from wakeful_activities.history_cache import HistoryCache
from wakeful_activities.inference.activity import InferActivity
from wakeful_activities.inference.attempt import Stream
from wakeful_activities.inference.chat_telemetry import ChatTelemetry
from wakeful_activities.inference.models import ProviderMissing
from wakeful_activities.other_workers import waited


class CompactActivity:
    """The `compact` activity over the models of the `infer` activity."""

    def __init__(self, inference: InferActivity, cache: HistoryCache) -> None:
        self._models = inference.models
        self._others = inference.others
        self._telemetry = inference.telemetry
        self._intervals = inference.intervals
        self._cache = cache

    @activity.defn(name=ACTIVITY_COMPACT)
    async def compact(self, input: CompactInput) -> CompactOutput:
        with heartbeating(intervals=self._intervals) as beats, ChatTelemetry(self._telemetry) as telemetry:
            agent = await self._cache.agent(input.agent)
            policy = (agent.context or ContextPolicy()).limited(input.limit)
            mark = await self._cache.mark(input.previous) if input.previous else None
            start = mark.through if mark else 0
            known = InferInput.model_construct(transcript=input.transcript, appended=())
            # The summary has what the mark covers: a long thread need not be read from its first message on.
            transcript = await self._cache.transcript(known, is_enough=lambda newest: newest.start <= start)
            messages = tuple(map(with_escaped_tags, transcript.since(start)))
            boundary = find_boundary(messages, policy, mark=mark, factor=input.token_factor, start=start)
            if boundary is None:
                return CompactOutput(skipped="nothing to summarise yet")
            summary = summary_request(messages, boundary.through, policy, mark=mark, start=start)
            prompt = Message(id="summary", role=Role.USER, content=(TextBlock(text=summary.user),))
            model = agent.summary_model or agent.model
            request = ModelRequest(
                model=model.name,
                instructions=summary.system,
                messages=(prompt,),
                settings=ModelSettings(max_tokens=summary.max_tokens),
            )
            telemetry.about(agent.agent_id, model)
            stream = Stream("", activity.info().attempt, telemetry=telemetry)
            try:
                retry = agent.retry or RetryPolicy()
                response = await self._models.call(model, request, retry, stream, beats)
                telemetry.answered(response)
            except ProviderError as error:
                # Temporal could not keep a whole traceback.
                message = shortened(f"summary failed: {error}")
                raise ApplicationError(message, type=error.kind, non_retryable=not error.kind.transient) from None
            except ProviderMissing as error:
                message = f"summary failed: {error}{waited(await self._others.leave(error.lacking))}"
                raise ApplicationError(message, type="ProviderNotFound", non_retryable=True) from None
        concluded = conclude(boundary, response.text, policy, factor=input.token_factor)
        if isinstance(concluded, Skipped):
            return CompactOutput(skipped=concluded.reason, usage=response.usage)
        made = concluded.model_copy(update={"digest": transcript.digest_at(concluded.through)})
        self._cache.put_mark(activity.info().activity_id, made)
        return CompactOutput(mark=made, usage=response.usage)
