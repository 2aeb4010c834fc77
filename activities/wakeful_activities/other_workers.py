"""Leave work to other workers, if this one's registry lacks what it needs.

In a rolling deploy, older workers get work of runs that newer ones started, and the reverse. Such an attempt executes
nothing and fails; Temporal retries it every few seconds, on any worker, until one has what it needs or the patience is
over. A local activity stays with its worker: it fails at once, and the workflow schedules a regular one instead.
"""

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from zlib import crc32

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from wakeful.authoring.plugin import hook_name
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import Wire
from wakeful.contract.limits import cut
from wakeful.contract.missing import NOT_ON_THIS_WORKER, TIMEOUTS, Missing, MissingReport
from wakeful.contract.names import SIGNAL_MISSING
from wakeful.registry.registry import Registry

_logger = logging.getLogger("wakeful")

W = TypeVar("W", bound=Wire)

SHORTEST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 5.0
REPORTED_AFTER_SECONDS = 2.0
"""Most are found sooner, and a signal is four events of history."""
RPC_TIMEOUT = timedelta(seconds=5)
GONE_SECONDS = 3600.0
"""How long something that no worker had counts as removed, not as new: its run need not wait for it at every step."""
REMEMBERED_GONE = 10_000
"""Of these, how many a worker remembers. A run whose entry was dropped waits once more."""
KNOWN = 20
"""Ids that a worker reports to have instead."""


@dataclass(frozen=True)
class Patience:
    """How long work waits for a worker that has what it needs."""

    new_run: timedelta = timedelta()
    """For the agent of a new run."""
    in_flight: timedelta = timedelta()
    """For everything that a run in flight needs."""


@dataclass(frozen=True)
class Lacking:
    """Something that this worker does not have."""

    what: str
    """As in `agent 'helper'`."""
    problem: str
    known: Sequence[str] = ()
    """The ids that it has instead."""
    reason: str = ""
    """Why it cannot reach it: what is lacking is not in the registry, but elsewhere."""


class AttemptFailed(Exception):
    """Raised by a tool of the runtime whose call was not executed, or may be repeated: another attempt follows."""

    def __init__(self, failure: ApplicationError) -> None:
        super().__init__(str(failure))
        self.failure = failure


class OtherWorkers:
    """Fails attempts that other workers may be able to make, for as long as the patience lasts.

    Args:
        worker: the identity of this worker.
        client: signals threads what this worker lacks for them, so that their details show it.
    """

    def __init__(
        self, registry: Registry, patience: Patience | None = None, *, worker: str = "", client: Client | None = None
    ) -> None:
        self._registry = registry
        self._patience = patience or Patience()
        self._worker = worker
        self._client = client
        self._gone: OrderedDict[tuple[str | None, str | None, str], int] = OrderedDict()
        """By workflow id, run id and what no worker had for it: until when that counts as removed.

        Of one execution only: others may need it since a later time, and a deploy may be slow.
        """

    def lacking(self, agent: ResolvedAgent) -> Lacking | None:
        """A gate, plugin or hook of the agent that this worker does not have."""
        for name in agent.gates:
            if self._registry.gate(name) is None:
                return Lacking(f"gate {name!r}", f"this worker has no gate {name!r}")
        for binding in agent.plugins:
            hooks = {phase.value for phase in binding.phases} | {hook_name(phase) for phase in binding.lifecycle}
            plugin = self._registry.plugin(binding.id)
            if hooks and plugin is None:
                return Lacking(f"plugin {binding.id!r}", f"this worker has no plugin {binding.id!r}")
            if plugin is not None and (unknown := sorted(hooks - {*plugin.hook_names()})):
                what = f"hook {unknown[0]!r} of plugin {binding.id!r}"
                return Lacking(what, f"this worker has no {what}")
        return None

    async def leave(
        self,
        lacking: Lacking,
        *,
        is_new_run: bool = False,
        heartbeat: Callable[[Missing], None] = activity.heartbeat,
    ) -> timedelta:
        """Fail this attempt, so that another worker gets the next one; return how long they were tried, if none does.

        Raises:
            ApplicationError: another attempt follows.
        """
        patience = self._patience.new_run if is_new_run else self._patience.in_flight
        info = activity.info()
        if info.is_local:
            raise _failure(lacking.problem)
        now = _millis(info.started_time.timestamp())
        gone = (info.workflow_id, info.workflow_run_id, lacking.what)
        if not is_new_run and now < self._gone.get(gone, 0):
            return timedelta()
        missing = self._missing(lacking, patience)
        since = missing.missing_since
        delay = max(SHORTEST_DELAY_SECONDS, min((now - since) / 4000, LONGEST_DELAY_SECONDS)) * spread()
        if now + delay * 1000 >= missing.retried_until:
            self._gone[gone] = now + _millis(GONE_SECONDS)
            while len(self._gone) > REMEMBERED_GONE:
                self._gone.popitem(last=False)
            return patience
        if info.retry_policy is not None and info.attempt == info.retry_policy.maximum_attempts:
            return timedelta(seconds=(now - since) // 1000)
        if not missing.reported and now - since >= REPORTED_AFTER_SECONDS * 1000:
            missing = await self._report(missing)
        if now == since:
            _logger.warning("left to other workers", extra={"what": missing.what})
        heartbeat(missing)
        tried = "other workers are tried" if not lacking.reason else "it is tried again"
        note = f"missing since {utc_clock(since)}; {tried} until {utc_clock(missing.retried_until)}"
        raise _failure(f"{lacking.problem} [{note}]", delay=delay)

    async def _report(self, missing: Missing) -> Missing:
        """Signal the thread, once."""
        if self._client is None:
            return missing
        info, reported = activity.info(), missing.model_copy(update={"reported": True})
        thread = self._client.get_workflow_handle(str(info.workflow_id), run_id=info.workflow_run_id)
        with contextlib.suppress(RPCError):  # it has ended, or the next attempt reports it
            report = MissingReport(activity_id=info.activity_id, missing=reported)
            await thread.signal(SIGNAL_MISSING, report, rpc_timeout=RPC_TIMEOUT)
            return reported
        return missing

    def _missing(self, lacking: Lacking, patience: timedelta) -> Missing:
        info = activity.info()
        is_reported, now = False, _millis(info.started_time.timestamp())
        since, until = now, now + _millis(patience.total_seconds())
        earlier = missing_before()
        if earlier is not None and earlier.attempt == info.attempt - 1:
            # Time in which no worker took the attempt is added.
            queued = max(timedelta(), info.started_time - info.current_attempt_scheduled_time)
            since, until = earlier.missing_since, earlier.retried_until + _millis(queued.total_seconds())
            is_reported = earlier.reported and earlier.what == lacking.what
        return Missing(
            what=lacking.what,
            known=tuple(lacking.known)[:KNOWN],
            reason=lacking.reason,
            worker=self._worker,
            missing_since=since,
            retried_until=until,
            attempt=info.attempt,
            reported=is_reported,
        )


def missing_before() -> Missing | None:
    """What an earlier attempt did not find, if one did not."""
    return left_before(Missing)


def left_before(kind: type[W]) -> W | None:
    """What earlier attempts have left of this type, in the last heartbeat before this attempt."""
    info = activity.info()
    for each in info.heartbeat_details if info.attempt > 1 else ():
        with contextlib.suppress(ValueError):  # another detail, perhaps a tool's own
            return kind.model_validate(each)
    return None


def executed_before(missing: Missing | None, *, ended_at: int = 0) -> int:
    """How many attempts have had what they needed, since the last one that had not; this one is not counted.

    Args:
        ended_at: the last attempt that is known to have ended by itself; those before it are not counted either.
    """
    return activity.info().attempt - 1 - max(missing.attempt if missing else 0, ended_at)


def check_executed(missing: Missing | None, limit: int, *, ended_at: int = 0) -> None:
    """Fail for good after `limit` attempts that did not report a result: a worker may be lost by what it executes.

    Temporal's retry policy has no limit, because it would count the attempts that executed nothing, too.
    """
    if (executed := executed_before(missing, ended_at=ended_at)) >= limit:
        times = f"{executed} times" if executed > 1 else "once"
        message = f"its worker was lost or stopped {times} before it reported a result"
        raise ApplicationError(message, type="WorkersLost", non_retryable=True)


def may_repeat() -> bool:
    """Whether the tool of this activity may run again after its worker was lost: its retry policy says so."""
    policy = activity.info().retry_policy
    return policy is None or TIMEOUTS[0] not in (policy.non_retryable_error_types or ())


def waited(patience: timedelta, verb: str = "had") -> str:
    """The end of a message about something that no worker had."""
    return f"; no worker {verb} it within {patience}" if patience else ""


def utc_clock(at: int) -> str:
    """A time in milliseconds since 1970, as failures show it."""
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _failure(message: str, *, delay: float | None = None) -> ApplicationError:
    return ApplicationError(
        cut(message),
        type=NOT_ON_THIS_WORKER,
        non_retryable=delay is None,
        next_retry_delay=None if delay is None else timedelta(seconds=delay),
        category=ApplicationErrorCategory.BENIGN,  # usual in a rolling deploy: no traceback in the worker's log
    )


def _millis(seconds: float) -> int:
    return int(seconds * 1000)


def spread() -> float:
    """From 0.75 to 1, the same for the same attempt: runs that failed together do not retry together."""
    info = activity.info()
    return 1 - crc32(f"{info.workflow_id}/{info.activity_id}/{info.attempt}".encode()) / (1 << 34)
