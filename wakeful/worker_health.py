"""The components of a worker that `/health` shows: its process, its threads, its tasks, its pollers, and Temporal."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pydantic import JsonValue
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from wakeful.client.diagnosis.evidence import QueueKind, TaskQueue
from wakeful.client.diagnosis.server_answers import describe_queue
from wakeful.rpc_errors import RETRYABLE
from wakeful.telemetry.health import Component, Components, HealthChecks
from wakeful.telemetry.run_scope import LastTask
from wakeful_activities.user_code import UserCode

READ_TIMEOUT = timedelta(seconds=3)
"""How long Temporal may take to describe the task queue."""
FRESH_SECONDS = 1.0
"""For how long its answer is used again: many probes must not become many calls."""
STALLED_SECONDS = 60.0
"""Tasks that are queued for longer than this, while the worker has had none, mean that it takes none."""


@dataclass(frozen=True)
class _Answer:
    """Temporal's description of the worker's task queues, or why there is none."""

    at: float
    seconds: float
    queues: Sequence[TaskQueue] = ()
    problem: str | None = None
    refused: str | None = None


@dataclass
class WorkerHealth:
    """Reads the health of one worker."""

    client: Client
    task_queue: str
    kinds: Sequence[QueueKind]
    """The task queues of that name that the worker polls."""
    user_code: UserCode
    last_task: LastTask
    worker: Worker
    max_activities: int | None = None
    """How many activities it executes at a time. One that executes as many takes no others, and polls for none."""
    is_stopping: bool = False
    _read: _Answer | None = None
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def checks(self) -> HealthChecks:
        return HealthChecks(self.own, self.remote)

    def own(self) -> Components:
        """What the worker knows without Temporal."""
        is_running = self.worker.is_running and not self.is_stopping
        state = "shutting down" if self.is_stopping else "starting" if not self.worker.is_shutdown else "stopped"
        identity = {"identity": self.client.identity, "task_queue": self.task_queue}
        stopped = self.worker.is_shutdown
        is_full, limit = self.user_code.is_full.is_set(), self.user_code.max_abandoned
        threads = {"abandoned": self.user_code.abandoned, "max_abandoned": limit}
        hung = "too many sync tools, gates or hooks hang: the worker stops, to be replaced" if is_full else None
        return {
            "worker": Component(is_running, identity, None if is_running else f"it is {state}", is_vital=stopped),
            "threads": Component(not is_full, threads, hung, is_vital=True),
        }

    async def remote(self) -> Components:
        """What Temporal says of it; of many probes at a time, one asks."""
        async with self._reading:
            if self._read is None or time.monotonic() - self._read.at > FRESH_SECONDS:
                self._read = await self._ask()
        read = self._read
        where: dict[str, JsonValue] = {
            "address": self.client.service_client.config.target_host,
            "namespace": self.client.namespace,
            "milliseconds": round(read.seconds * 1000, 1),
        }
        if read.refused is not None:
            where["note"] = f"it does not describe the task queue: {read.refused}"
        components = {"server": Component(read.problem is None, where, read.problem)}
        if read.queues:
            components["pollers"] = self._pollers(read.queues)
        return {**components, "tasks": self._tasks(read.queues)}

    async def _ask(self) -> _Answer:
        started = time.monotonic()
        queues: Sequence[TaskQueue] = ()
        problem = refused = None
        try:
            queues = await asyncio.gather(*(self._describe(kind) for kind in self.kinds))
        except RPCError as error:
            if error.status in RETRYABLE:
                problem = f"Temporal cannot be reached: {error.message}"
            else:  # one who may not describe the task queue may still poll it
                refused = error.message
        ended = time.monotonic()
        return _Answer(ended, ended - started, queues, problem, refused)

    async def _describe(self, kind: QueueKind) -> TaskQueue:
        return await describe_queue(self.client, self.task_queue, kind, within=READ_TIMEOUT)

    def _pollers(self, queues: Sequence[TaskQueue]) -> Component:
        """Whether Temporal sees this worker poll. One whose slots are all taken polls for workflow tasks at most."""
        now = int(time.time() * 1000)
        seconds_ago: dict[str, JsonValue] = {}
        for queue in queues:
            polls = [poller.at for poller in queue.live_pollers(now) if poller.identity == self.client.identity]
            if polls:
                seconds_ago[queue.kind.value] = max(0.0, round((now - max(polls)) / 1000, 1))
        if seconds_ago or self._is_full:
            return Component(True, {"polled_seconds_ago": seconds_ago})
        return Component(False, problem=f"Temporal has seen no poll of this worker on task queue {self.task_queue!r}")

    def _tasks(self, queues: Sequence[TaskQueue]) -> Component:
        """When the worker last had a task. It may have none for days, unless some are queued."""
        ago, backlog = self.last_task.seconds_ago, sum(queue.backlog for queue in queues)
        details: dict[str, JsonValue] = {
            "last_seconds_ago": None if ago is None else round(ago, 1),
            "running": self.last_task.running,
            "backlog": backlog,
        }
        waiting = max((queue.backlog_age for queue in queues), default=0.0)
        is_stalled = waiting > STALLED_SECONDS and (ago is None or ago > STALLED_SECONDS) and not self._is_full
        problem = f"tasks are queued for up to {waiting:.0f} s, and this worker takes none" if is_stalled else None
        return Component(not is_stalled, details, problem)

    @property
    def _is_full(self) -> bool:
        return self.max_activities is not None and self.last_task.running >= self.max_activities
