"""A model call in progress: backing off after a failure, without an answer yet, streaming, or stalled."""

from dataclasses import dataclass

from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import Activity, Failure, RetryLimits
from wakeful.client.diagnosis.wording import (
    ago,
    capital,
    clause,
    clock,
    code,
    counted,
    duration,
    lasting,
    listed,
    seconds,
    since_then,
    times,
    until,
    wakeful,
)
from wakeful.contract.errors import OUTAGE_NOTE, RETRY_LATER, RETRY_MAY_HELP, ProviderErrorKind
from wakeful.contract.streaming import Outage, StreamCheckpoint

PREFIX = "inference failed: "
KINDS = {
    ProviderErrorKind.RATE_LIMITED: "rate limited",
    ProviderErrorKind.OVERLOADED: "overloaded",
    ProviderErrorKind.TIMEOUT: "timeout",
    ProviderErrorKind.STREAM_INTERRUPTED: "stream interrupted",
    ProviderErrorKind.PROVIDER: "provider error",
}
ADVICE = {
    ProviderErrorKind.RATE_LIMITED: "The limit is the provider's, not Wakeful's: wait, raise the limit{fallback}.",
    ProviderErrorKind.OVERLOADED: "The provider is overloaded: wait{fallback}.",
    ProviderErrorKind.TIMEOUT: "The provider is slow: wait{fallback}, or shorten the conversation.",
    ProviderErrorKind.STREAM_INTERRUPTED: "Connections to the provider break: wait{fallback}.",
    ProviderErrorKind.PROVIDER: "Check that the provider is up and that the worker can reach it{fallback}.",
}
OTHER_ADVICE = "Wait, or fix the cause of the failure{fallback}."


@dataclass(frozen=True)
class ModelCall:
    """A pending model call, its thread and step, and the time."""

    activity: Activity
    thread_id: str
    model: str
    step: str
    now: int

    @property
    def doing(self) -> str:
        return f"{self.step}calls model {self.model}" if self.model else f"{self.step}calls its model"

    @property
    def failures(self) -> int:
        """Attempts in which a model failed; Temporal also counts those in which none was called."""
        outage = self.activity.outage
        return (outage.failures if outage else 0) or self.activity.attempt - 1

    @property
    def since(self) -> int | None:
        """When the first attempt failed, or else when the call was scheduled."""
        activity = self.activity
        return activity.outage.since if activity.outage else activity.first_scheduled_at or activity.started_at


def backing_off(call: ModelCall, failure: Failure) -> Finding:
    """The last attempt failed, and Temporal retries the call after a backoff."""
    activity, now = call.activity, call.now
    kind = _kind(failure)
    named = KINDS.get(kind, failure.kind.replace("_", " ")) if kind else failure.kind
    # Only the last failure is quoted: Temporal does not store the earlier ones.
    doing = f"{call.doing}, which has failed {times(call.failures)}{since_then(call.since, now)}"
    due = until(activity.next_attempt_at, now) if activity.next_attempt_at is not None else "now"
    why = f"The last failure ({named}): {_reason(failure)}. Temporal retries it {due}{_patience(call)}."
    cancel = wakeful("cancel", call.thread_id)
    advice = ADVICE.get(kind, OTHER_ADVICE) if kind else OTHER_ADVICE
    fallback = ", or give the agent a fallback model" if activity.limits and len(activity.limits.models) == 1 else ""
    next = f"{advice.replace('{fallback}', fallback)} {code(cancel)} cancels the run."
    return Finding(Cause.MODEL_RETRYING, doing, why, next, call.since, (cancel,))


def in_progress(call: ModelCall) -> Finding:
    """The provider has the request: its answer has not started, is streaming, or has stalled."""
    checkpoint = call.activity.checkpoint
    if checkpoint is None or checkpoint.attempt < call.activity.attempt:
        return _thinking(call, checkpoint)
    if call.activity.growth == 0:
        return _stalled(call, checkpoint)
    return _streaming(call, checkpoint)


def _thinking(call: ModelCall, earlier: StreamCheckpoint | None) -> Finding:
    activity, now = call.activity, call.now
    doing = f"{call.doing} and has waited{lasting(activity.started_at, now)} for its answer to start"
    why = "The provider has the request and has sent nothing yet: the model reads or reasons, or the request is queued."
    if earlier is not None:
        cause = f" ({earlier.broken})" if earlier.broken else ""
        why = (
            f"An earlier attempt was interrupted{cause} after {_arrived(earlier)}; the model is asked to continue from "
            "there."
        )
    elif activity.failure is not None:
        why = f"This is attempt {activity.attempt}; the one before failed: {_reason(activity.failure)}."
    if activity.limits is not None and activity.started_at is not None:
        deadline = activity.started_at + int(activity.limits.first_token_timeout * 1000)
        why += f" If nothing has arrived {until(deadline, now)}, the attempt counts as failed."
    cancel = wakeful("cancel", call.thread_id)
    next = f"Wait; {code(cancel)} cancels the run."
    return Finding(Cause.MODEL_THINKING, doing, why, next, activity.started_at, (cancel,))


def _streaming(call: ModelCall, checkpoint: StreamCheckpoint) -> Finding:
    activity, now = call.activity, call.now
    doing = f"{_doing(call, checkpoint)}, which has been answering{lasting(activity.started_at, now)}"
    rate = ""
    if activity.growth and activity.observed_seconds:
        last = duration(activity.observed_seconds + 0.5)
        rate = f", {counted(activity.growth, 'character')} of them within the last {last}"
    why = f"{capital(_arrived(checkpoint))} so far{rate}{_time_limit(activity, now)}."
    cancel = wakeful("cancel", call.thread_id)
    next = f"Wait for the rest; {code(cancel)} cancels the run; watchers keep the text that has arrived."
    return Finding(Cause.MODEL_STREAMING, doing, why, next, activity.started_at, (cancel,))


def _stalled(call: ModelCall, checkpoint: StreamCheckpoint) -> Finding:
    activity, now = call.activity, call.now
    started = f" (the call started {ago(activity.started_at, now)})" if activity.started_at is not None else ""
    doing = f"{_doing(call, checkpoint)}, whose answer has started and has stalled{started}"
    why = f"{capital(_arrived(checkpoint))} so far, and nothing more arrived within {activity.observed_seconds:.1g}s."
    if activity.limits is not None:
        why += (
            f" After {seconds(activity.limits.idle_timeout)} without data the worker treats the stream as interrupted, "
            "and asks the model to continue from there."
        )
    why += f" Its worker, {activity.worker}, is alive: it heartbeats."
    cancel = wakeful("cancel", call.thread_id)
    next = f"Wait for that, or check again in a moment; {code(cancel)} cancels the run; watchers keep what has arrived."
    return Finding(Cause.MODEL_STALLED, doing, why, next, activity.started_at, (cancel,))


def _doing(call: ModelCall, checkpoint: StreamCheckpoint) -> str:
    return f"{call.step}calls model {checkpoint.model}" if checkpoint.model else call.doing


def _arrived(checkpoint: StreamCheckpoint) -> str:
    parts = []
    if checkpoint.reasoning:
        parts.append(f"{counted(len(checkpoint.reasoning), 'character')} of reasoning")
    if checkpoint.text:
        parts.append(f"{counted(len(checkpoint.text), 'character')} of text")
    if checkpoint.calls:
        names = ", ".join(call.name for call in checkpoint.calls)
        parts.append(f"{counted(len(checkpoint.calls), 'tool call')} ({names})")
    tokens = checkpoint.usage.completion_tokens
    return listed(parts or ["no visible text"]) + (f" ({counted(tokens, 'token')})" if tokens else "")


def _patience(call: ModelCall) -> str:
    """Which model is called next, and until when the call is retried, as far as that is known."""
    activity, limits, outage = call.activity, call.activity.limits, call.activity.outage
    if outage is None:
        return f" (attempt {activity.attempt} of at most {activity.max_attempts})" if activity.max_attempts else ""
    model = ""
    if limits is not None and len(limits.models) > 1:
        model = f", with model {_next_model(limits, outage, activity.next_attempt_at or call.now)}"
    if outage.until <= call.now:
        return f"{model}; its agent's patience is over, so that is the last attempt"
    return f"{model}, and so on until its agent's patience is over {until(outage.until, call.now)}"


def _next_model(limits: RetryLimits, outage: Outage, at: int) -> str:
    first_round = limits.attempts * len(limits.models)
    index = outage.failures // limits.attempts
    if outage.failures >= first_round:
        index = (outage.failures - first_round) % len(limits.models)
    order = (*limits.models[index:], *limits.models[:index])
    blocked = {key.partition("/")[2] for key, time in outage.not_before.items() if time > at}
    return next((model for model in order if model not in blocked), order[0])


def _time_limit(activity: Activity, now: int) -> str:
    if not activity.timeout or activity.started_at is None:
        return ""
    at = activity.started_at + int(activity.timeout * 1000)
    return f"; the timeout for the whole answer is {seconds(activity.timeout)} ({clock(at, now)})"


def _reason(failure: Failure) -> str:
    """The provider's message, without the advice that our providers append: a diagnosis has its own."""
    message = failure.message.removeprefix(PREFIX).partition(OUTAGE_NOTE)[0]
    for advice in (RETRY_MAY_HELP, RETRY_LATER):
        message = message.partition(f"; {advice}")[0]
    return clause(message)


def _kind(failure: Failure) -> ProviderErrorKind | None:
    try:
        return ProviderErrorKind(failure.kind)
    except ValueError:
        return None
