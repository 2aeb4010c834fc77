"""Whether a failed inference is retried, and when: for as long as the agent's patience, which no other run uses up.

Temporal waits between the attempts, which costs neither history nor a slot of a worker, and ends at once if the run is
cancelled. The heartbeat records the outage, so any worker can continue it; the failure is short, because Temporal keeps
only short ones of a pending activity.
"""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from zlib import crc32

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.contract.agents import ModelBinding
from wakeful.contract.errors import OUTAGE_NOTE, ProviderError, ProviderErrorKind
from wakeful.contract.streaming import Outage
from wakeful_activities.error_texts import failure_of, shortened
from wakeful_activities.inference.attempt import Stream
from wakeful_activities.inference.model_choice import ModelChoice, model_key
from wakeful_activities.inference.recovery import stream_retries
from wakeful_activities.other_workers import utc_clock

LOST_WORKERS = 5
"""How many workers in a row may be lost during one inference, or raise an error that is not a provider's."""

JITTER = 0.2
MAX_JITTER_SECONDS = 10.0
"""The part of a delay, and the time, by which runs that failed together are spread."""


class HeldBack(ProviderError):
    """No model was called: each has to wait for its circuit breaker."""

    def __init__(self, kind: ProviderErrorKind, message: str, *, wait: float) -> None:
        super().__init__(kind, message, retry_after=wait)


def choose_model(
    choice: ModelChoice, stream: Stream, breaker_wait: Callable[[ModelBinding], float]
) -> ModelBinding | None:
    """The model to call now; None if circuit breakers let no call through."""
    waits, order = _waits(choice, stream.outage, breaker_wait), choice.order(stream.failures)
    if (free := next((model for model in order if not waits[model_key(model)]), None)) is not None:
        return free
    if stream.outage is not None and _now() >= stream.outage.until:
        return order[0]  # its patience is over: one last call
    # Temporal has waited for as long as a `Retry-After` says, unless a person has started the attempt earlier.
    return next((model for model in order if not breaker_wait(model)), None)


def failure(
    error: ProviderError, choice: ModelChoice, stream: Stream, breaker_wait: Callable[[ModelBinding], float]
) -> ApplicationError:
    """The activity's failure: whether Temporal retries it, and when. The next heartbeat records the outage."""
    if not error.kind.transient:
        return _application_error(f"inference failed: {error}", error.kind, is_final=True)
    arrived = stream.interrupted(error)
    outage, is_held_back = _continued(stream.outage, choice, stream), isinstance(error, HeldBack)
    failures = stream.failures
    if arrived is None and not is_held_back:
        outage = outage.model_copy(update={"failures": failures + 1})
        if stream.model is not None and error.retry_after:
            not_before = _now() + int(error.retry_after * 1000)
            outage = outage.model_copy(
                update={"not_before": {**outage.not_before, model_key(stream.model): not_before}}
            )
    stream.outage = outage
    message = f"inference failed: {error}"
    if arrived is not None:
        message = f"inference failed: stream interrupted ({arrived.broken}): {error}"
        extra = stream_retries(arrived) + 1 - choice.policy.max_stream_retries
        is_last, delay = extra > 0, choice.backoff(max(0, extra), error)
        delay = max(delay, error.retry_after or 0)
    else:
        waits = _waits(choice, outage, breaker_wait)
        is_last = not is_held_back and choice.has_tried_all(failures + 1)
        delay = error.retry_after or 0.0 if is_held_back else choice.delay(failures, error, waits)
    delay += min(JITTER * delay, MAX_JITTER_SECONDS) * _spread()
    if is_last and _now() + delay * 1000 >= outage.until:
        return _application_error(f"{message}{_gave_up(outage, choice)}", error.kind, is_final=True)
    return _application_error(f"{message}{_note(outage)}", error.kind, delay=delay)


def unexpected(error: Exception, stream: Stream) -> ApplicationError:
    """The activity's failure for an error that is not a provider's: a bug of a provider, or history cannot be read."""
    is_final = stream.lost >= LOST_WORKERS
    if isinstance(error, ApplicationError):
        return _application_error(error.message, error.type or "ApplicationError", is_final=is_final)
    kind = type(error).__name__
    return failure_of(
        f"the inference raised {kind}",
        f"{kind}: {error}",
        type=kind,
        non_retryable=is_final,
        category=ApplicationErrorCategory.BENIGN,
    )


def too_many_lost(stream: Stream) -> ApplicationError | None:
    """The activity's failure if worker after worker was lost during this inference."""
    if stream.lost <= LOST_WORKERS:
        return None
    message = f"inference failed: its worker was lost {stream.lost} times in a row; check the workers' memory and logs"
    return _application_error(message, "WorkersLost", is_final=True)


def _application_error(
    message: str, kind: str, *, is_final: bool = False, delay: float | None = None
) -> ApplicationError:
    return ApplicationError(
        shortened(message),
        type=kind,
        non_retryable=is_final,
        next_retry_delay=None if delay is None else timedelta(seconds=delay),
        category=ApplicationErrorCategory.BENIGN,  # it is logged in one line of ours, not with a traceback
    )


def _waits(
    choice: ModelChoice, outage: Outage | None, breaker_wait: Callable[[ModelBinding], float]
) -> dict[str, float]:
    """Seconds until each model may be called, by its `Retry-After` and its circuit breaker."""
    not_before: Mapping[str, int] = outage.not_before if outage else {}
    now = _now()
    return {
        model_key(model): max(0.0, (not_before.get(model_key(model), 0) - now) / 1000, breaker_wait(model))
        for model in choice.models
    }


def _continued(outage: Outage | None, choice: ModelChoice, stream: Stream) -> Outage:
    """The outage, which begins with the first failed attempt. Time in which no worker took the attempt is added."""
    if outage is None:
        now = _now()
        return Outage(since=now, until=now + int(choice.policy.patience_secs * 1000), attempt=stream.attempt)
    info = activity.info()
    queued = max(timedelta(), info.started_time - info.current_attempt_scheduled_time)
    until = outage.until + int(queued.total_seconds() * 1000)
    return outage.model_copy(update={"until": until, "attempt": stream.attempt})


def _note(outage: Outage) -> str:
    times = f", {outage.failures} failed attempts" if outage.failures > 1 else ""
    return f"{OUTAGE_NOTE}{utc_clock(outage.since)}{times}; retried until {utc_clock(outage.until)}]"


def _gave_up(outage: Outage, choice: ModelChoice) -> str:
    if not choice.policy.patience_secs:
        return ""
    patience = timedelta(seconds=choice.policy.patience_secs)
    failed = f"{outage.failures} failed attempts"
    return f"{OUTAGE_NOTE}{utc_clock(outage.since)}, {failed}; its patience of {patience} is over]"


def _now() -> int:
    return int(time.time() * 1000)


def _spread() -> float:
    """From 0 to 1, the same for the same attempt: a repeated test has the same delays."""
    info = activity.info()
    return crc32(f"{info.workflow_id}/{info.activity_id}/{info.attempt}".encode()) / (1 << 32)
