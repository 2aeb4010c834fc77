"""Which errors of a tool are retried without a model turn, how often, and how long Temporal waits before it.

This is for tools that the run's own workers execute. Lost workers, and workers that lack the tool, are not counted.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from wakeful.contract.errors import RetryLater, ToolError
from wakeful.contract.tools import Effects

DEFAULT_RETRIES = 3
DEFAULT_RETRY_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 60.0
"""Of the backoff; a tool that raises `RetryLater` may ask for more."""


@dataclass(frozen=True)
class ToolRetries:
    """How a call is retried after an error that its tool raised."""

    limit: int = DEFAULT_RETRIES
    on: tuple[type[Exception], ...] = ()
    """Types of errors beside `RetryLater`."""
    delay: float = DEFAULT_RETRY_DELAY_SECONDS
    """Before the first retry; it doubles with each."""

    def wait(self, error: Exception, *, raised: int) -> float | None:
        """Seconds until the call is tried again; None if the model reads the error.

        Args:
            raised: how many errors the call has raised, with this one.
        """
        if raised > self.limit or not self._covers(error):
            return None
        if isinstance(error, RetryLater) and error.after is not None:
            return error.after
        doubled = self.delay * 2.0 ** min(raised - 1, 64)
        return min(doubled, LONGEST_DELAY_SECONDS)

    def _covers(self, error: Exception) -> bool:
        if isinstance(error, ToolError):
            return isinstance(error, RetryLater)
        return isinstance(error, self.on)


@dataclass(frozen=True)
class RetryOptions:
    """What `@tool` was given of retries, before it is checked."""

    retries: int | None
    on: tuple[type[Exception], ...]
    delay: float
    effects: Effects
    task_queue: str | None
    local: bool

    @property
    def resolved(self) -> ToolRetries:
        """Without a number of its own, a tool has retries where the run's own workers can make them."""
        default = 0 if self.local or self.task_queue is not None else DEFAULT_RETRIES
        return ToolRetries(default if self.retries is None else self.retries, self.on, self.delay)

    def problems(self, tool: str) -> Iterator[str]:
        """What contradicts something else."""
        if self.retries is not None and self.retries < 0:
            yield f"tool {tool!r} has {self.retries} retries: use 0 for none"
        if not (math.isfinite(self.delay) and self.delay >= 0):
            yield f"tool {tool!r} has a retry_delay of {self.delay!r}: use a number of seconds"
        if self.local and (self.retries or self.on):
            yield (
                f"tool {tool!r} is local, and cannot wait for a retry, because its run handles no signal meanwhile: "
                "leave out local, or the retries"
            )
        if self.task_queue is not None:
            yield from self._problems_elsewhere(tool)
        elif self.on:
            yield from self._problems_of_types(tool)

    def _problems_elsewhere(self, tool: str) -> Iterator[str]:
        if self.retries and not self.effects.may_repeat:
            yield f"tool {tool!r} has retries on its own task_queue: it must be read_only or idempotent"
        if self.on:
            yield (
                f"tool {tool!r} has a task_queue, where errors have no Python types: leave out retry_on; with retries, "
                "every error is retried that its worker does not mark as non-retryable"
            )

    def _problems_of_types(self, tool: str) -> Iterator[str]:
        if self.retries == 0:
            yield f"tool {tool!r} has retry_on and retries=0: leave out one of them"
        if not self.effects.may_repeat:
            yield (
                f"tool {tool!r} has retry_on: it must be read_only or idempotent, because it may have taken effect "
                "before such an error; or it raises RetryLater where it has not"
            )
        for kind in self.on:
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                yield f"tool {tool!r} has {kind!r} in retry_on, which is not a type of exceptions"
            elif issubclass(kind, ToolError):
                yield (
                    f"tool {tool!r} has {kind.__name__} in retry_on: the model reads a ToolError at once, and "
                    "RetryLater is always retried"
                )
