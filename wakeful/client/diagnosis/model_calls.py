"""A model call that is under way: refused and tried again, thinking, answering, or silent in the middle of it."""

from dataclasses import dataclass

from wakeful.client.diagnosis.causes import Cause, Finding
from wakeful.client.diagnosis.evidence import Activity, Failure
from wakeful.client.diagnosis.wording import (
    ago,
    capital,
    clock,
    code,
    counted,
    duration,
    lasting,
    listed,
    said,
    seconds,
    since_then,
    times,
    until,
    wakeful,
)
from wakeful.contract.errors import ProviderErrorKind
from wakeful.contract.streaming import StreamCheckpoint

PREFIX = "inference failed: "
ADVICE_BEGINS = ("; ask again later", "; asking again may help")
KINDS = {
    ProviderErrorKind.RATE_LIMITED: "rate limited",
    ProviderErrorKind.OVERLOADED: "overloaded",
    ProviderErrorKind.TIMEOUT: "timeout",
    ProviderErrorKind.STREAM_INTERRUPTED: "the answer broke off",
    ProviderErrorKind.PROVIDER: "provider error",
}
ADVICE = {
    ProviderErrorKind.RATE_LIMITED: "It is the provider's limit, not Wakeful's: wait, raise the limit{fallback}.",
    ProviderErrorKind.OVERLOADED: "The provider has too much to do: wait{fallback}.",
    ProviderErrorKind.TIMEOUT: "The provider is slow: wait{fallback}, or shorten the conversation.",
    ProviderErrorKind.STREAM_INTERRUPTED: "Connections to the provider break: wait{fallback}.",
    ProviderErrorKind.PROVIDER: "Check that the provider is up and that the worker reaches it{fallback}.",
}


@dataclass(frozen=True)
class ModelCall:
    """The call with what there is to say about it: at which step, on which thread, and now."""

    activity: Activity
    thread_id: str
    model: str
    step: str
    now: int

    @property
    def asks(self) -> str:
        return f"{self.step}asks model {self.model}" if self.model else f"{self.step}asks its model"

    @property
    def failures(self) -> int:
        """Attempts that got nothing; those that broke off half way are counted for themselves."""
        earlier = self.activity.checkpoint
        broken = len(earlier.interruptions) + 1 if earlier and earlier.attempt < self.activity.attempt else 0
        return max(0, self.activity.attempt - 1 - broken)


def backing_off(call: ModelCall, failure: Failure) -> Finding:
    """The provider did not answer, and Temporal waits until it is asked again."""
    activity, now = call.activity, call.now
    kind = _kind(failure)
    named = KINDS.get(kind, failure.kind.replace("_", " ")) if kind else failure.kind
    reason = _reason(failure)
    since = activity.first_at or activity.started_at
    # The last failure is told; how the ones before it failed is not kept by anybody.
    doing = f"{call.asks}, which has failed {times(activity.attempt - 1)}{since_then(since, now)}"
    due = until(activity.next_at, now) if activity.next_at is not None else "now"
    why = f"The last time ({named}): {reason}. Temporal tries again {due}{_left(call)}."
    cancel = wakeful("cancel", call.thread_id)
    advice = ADVICE.get(kind, "Wait, or see to it.") if kind else "Wait, or see to it."
    fallback = ", or give the agent a fallback model" if activity.tries and len(activity.tries.models) == 1 else ""
    next = f"{advice.replace('{fallback}', fallback)} {code(cancel)} stops the run."
    return Finding(Cause.MODEL_RETRYING, doing, why, next, since, (cancel,))


def under_way(call: ModelCall) -> Finding:
    """The provider was asked: nothing has come yet, the answer comes, or it has stopped coming."""
    came = call.activity.checkpoint
    if came is None or came.attempt < call.activity.attempt:
        return _thinking(call, came)
    if call.activity.grown == 0:
        return _stalled(call, came)
    return _streaming(call, came)


def _thinking(call: ModelCall, earlier: StreamCheckpoint | None) -> Finding:
    activity, now = call.activity, call.now
    doing = f"{call.asks} and has waited{lasting(activity.started_at, now)} for it to begin its answer"
    why = "The provider has the request, and nothing has come back yet: the model reads, thinks or is queued there."
    if earlier is not None:
        broke = f" ({earlier.broken})" if earlier.broken else ""
        why = f"An earlier attempt broke off{broke} after {_came(earlier)}; it is asked to go on from there."
    elif activity.failure is not None:
        why = f"This is attempt {activity.attempt}; the one before failed: {_reason(activity.failure)}."
    if activity.tries is not None and activity.started_at is not None:
        given_up = activity.started_at + int(activity.tries.first_token_seconds * 1000)
        why += f" If nothing has come {until(given_up, now)}, that counts as a failure."
    cancel = wakeful("cancel", call.thread_id)
    next = f"There is nothing to do but wait; {code(cancel)} stops the run."
    return Finding(Cause.MODEL_THINKING, doing, why, next, activity.started_at, (cancel,))


def _streaming(call: ModelCall, came: StreamCheckpoint) -> Finding:
    activity, now = call.activity, call.now
    doing = f"{_named(call, came)}, which has been answering{lasting(activity.started_at, now)}"
    rate = ""
    if activity.grown and activity.looked:
        rate = f", {counted(activity.grown, 'character')} of it within the last {duration(activity.looked + 0.5)}"
    why = f"{capital(_came(came))} so far{rate}{_may_take(activity, now)}."
    cancel = wakeful("cancel", call.thread_id)
    next = f"All is well: wait for the rest; {code(cancel)} stops the run and keeps what has come."
    return Finding(Cause.MODEL_STREAMING, doing, why, next, activity.started_at, (cancel,))


def _stalled(call: ModelCall, came: StreamCheckpoint) -> Finding:
    activity, now = call.activity, call.now
    asked = f" (it was asked {ago(activity.started_at, now)})" if activity.started_at is not None else ""
    doing = f"{_named(call, came)}, whose answer has begun and does not go on{asked}"
    why = f"{capital(_came(came))} so far, and nothing more came while it was looked at for {activity.looked:.1g}s."
    if activity.tries is not None:
        why += (
            f" After {seconds(activity.tries.idle_seconds)} of silence the connection counts as broken, and the model "
            "is asked to go on from there."
        )
    why += f" The connection stands: its worker, {activity.worker}, gives signs of life."
    cancel = wakeful("cancel", call.thread_id)
    next = f"Look again in a moment, or wait for that; {code(cancel)} stops the run and keeps what has come."
    return Finding(Cause.MODEL_STALLED, doing, why, next, activity.started_at, (cancel,))


def _named(call: ModelCall, came: StreamCheckpoint) -> str:
    return f"{call.step}asks model {came.model}" if came.model else call.asks


def _came(came: StreamCheckpoint) -> str:
    parts = []
    if came.reasoning:
        parts.append(f"{counted(len(came.reasoning), 'character')} of reasoning")
    if came.text:
        parts.append(f"{counted(len(came.text), 'character')} of text")
    if came.calls:
        parts.append(f"{counted(len(came.calls), 'tool call')} ({', '.join(each.name for each in came.calls)})")
    tokens = came.usage.completion_tokens
    return listed(parts or ["nothing that shows"]) + (f" ({counted(tokens, 'token')})" if tokens else "")


def _left(call: ModelCall) -> str:
    """How often it is still tried, by the agent's own policy if that is known, or else by Temporal's bound."""
    activity, tries = call.activity, call.activity.tries
    if tries is not None:
        left = max(0, tries.each * len(tries.models) - call.failures)
        turn = min(call.failures // tries.each, len(tries.models) - 1)
        others = "" if len(tries.models) == 1 else f", next of model {tries.models[turn]}"
        return f"; {counted(left, 'attempt')} {'is' if left == 1 else 'are'} left{others}"
    if activity.most_attempts:
        return f" (attempt {activity.attempt} of at most {activity.most_attempts})"
    return ""


def _may_take(activity: Activity, now: int) -> str:
    if not activity.timeout or activity.started_at is None:
        return ""
    at = activity.started_at + int(activity.timeout * 1000)
    return f"; the whole answer may take {seconds(activity.timeout)}, until {clock(at, now)}"


def _reason(failure: Failure) -> str:
    """What the provider said, without the advice that our providers give with it: a diagnosis has its own."""
    message = failure.message.removeprefix(PREFIX)
    for advice in ADVICE_BEGINS:
        message = message.partition(advice)[0]
    return said(message)


def _kind(failure: Failure) -> ProviderErrorKind | None:
    try:
        return ProviderErrorKind(failure.kind)
    except ValueError:
        return None
