"""The attempts of one call: what the earlier ones left, what this one leaves, and whether an error has another follow.

An error that the tool raised is retried by Temporal: the attempt fails with the delay until the next one, and no worker
is busy meanwhile. The errors are counted apart from lost workers and from workers that lack the tool, whose limits are
their own. All of it is in the heartbeats of the activity, from which any worker continues.
"""

from collections.abc import Mapping
from datetime import timedelta

from pydantic import JsonValue
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.authoring.tool import Tool
from wakeful.contract.errors import RetryLater
from wakeful.contract.missing import Missing
from wakeful.contract.tool_attempts import RAISED_ERROR, ToolAttempts
from wakeful_activities.error_texts import failure_of
from wakeful_activities.other_workers import check_executed, left_before, may_repeat, missing_before, spread

LOST_ATTEMPTS = 10
"""How often a call that may be repeated is executed, if its workers are lost."""

SHORTEST_DELAY_SECONDS = 0.001
"""Temporal takes a delay of zero for none, and uses the one of its retry policy."""

Shown = Mapping[str, JsonValue]


class Attempts:
    """The attempts of the call that this activity executes."""

    def __init__(self) -> None:
        self._missing = missing_before()
        self._earlier = left_before(ToolAttempts) or ToolAttempts(raised_errors=0)
        self.last_checkpoint = self._earlier.checkpoint
        self._checkpoint = self.last_checkpoint
        """Set from any thread: a heartbeat that is sent meanwhile has the old one or the new one."""

    def check(self) -> None:
        """Fail a call that may have been executed in earlier attempts, and may not be again.

        Temporal retries every failure of a call: those of attempts that found no tool, but also, for example, of a
        worker that shut down while the tool ran.
        """
        limit = LOST_ATTEMPTS if may_repeat() else 1
        check_executed(self._missing, limit, ended_at=self._earlier.raised_at_attempt)

    def checkpoint(self, value: JsonValue) -> None:
        self._checkpoint = value

    def details(self, shown: Shown | None) -> tuple[Shown | Missing | ToolAttempts | None, ...]:
        """The details of the next heartbeat: what the call shows, and what the next attempt needs."""
        left = self._left()
        needed = [each for each in (self._missing, left) if each is not None]
        return (shown, *needed) if needed or shown is not None else ()

    def beat_missing(self, missing: Missing) -> None:
        """Heartbeat what this worker lacks, beside what the earlier attempts left."""
        left = self._left()
        activity.heartbeat(missing, *([] if left is None else [left]))

    def _left(self) -> ToolAttempts | None:
        left = self._earlier.model_copy(update={"checkpoint": self._checkpoint})
        return left if left != ToolAttempts(raised_errors=0) else None

    def failure_to_retry(self, tool: Tool, error: Exception, problem: str) -> ApplicationError | None:
        """How the attempt fails, so that Temporal makes another; None if the model reads the error.

        Args:
            problem: the error, as a model would read it.
        """
        info, raised = activity.info(), self._earlier.raised_errors + 1
        delay = tool.retries.wait(error, raised=raised)
        if delay is None or info.is_local or _is_cancelled() or _is_last():
            return None
        self._earlier = self._earlier.model_copy(update={"raised_errors": raised, "raised_at_attempt": info.attempt})
        if not (isinstance(error, RetryLater) and error.after is not None):
            delay *= spread()
        return failure_of(
            f"tool {tool.name!r} raised {type(error).__name__}",
            f"{problem} [retry {raised} of {tool.retries.limit} follows]",
            type=RAISED_ERROR,
            category=ApplicationErrorCategory.BENIGN,  # expected: no traceback in the worker's log
            next_retry_delay=timedelta(seconds=max(delay, SHORTEST_DELAY_SECONDS)),
        )

    def counted(self, problem: str) -> str:
        """What the model reads of the last error: also how often the call was tried."""
        if not self._earlier.raised_errors:
            return problem
        tried = self._earlier.raised_errors + 1
        return f"{problem}\nThe call was tried {tried} times, and failed each time; this is the last error."


def _is_cancelled() -> bool:
    """Whether the run has cancelled the call; a worker that stops leaves it to another."""
    details = activity.cancellation_details()
    return activity.is_cancelled() and not (details is not None and details.worker_shutdown)


def _is_last() -> bool:
    """Whether Temporal would not retry: the retry policy of a tool with its own task queue has a limit."""
    info = activity.info()
    return info.retry_policy is not None and info.attempt == info.retry_policy.maximum_attempts
