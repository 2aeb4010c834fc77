"""Composition: a Temporal worker from a registry and a client, with every workflow and activity that agents need.

The only module that imports workflows and activities together. `worker.py` at the top of the repository runs it.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import (
    Interceptor,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerDeploymentConfig,
    WorkflowRunner,
)

from wakeful.authoring.profiles import ProfileStore
from wakeful.client.arguments import check_temporal
from wakeful.client.diagnosis.evidence import QueueKind
from wakeful.client.thread_reader import ThreadReader
from wakeful.connection import ensure_search_attributes, warn_of_short_retention
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import ConfigurationError, WorkerExhausted
from wakeful.contract.names import DEFAULT_TASK_QUEUE
from wakeful.history.reader import HistoryReader
from wakeful.imported import import_named, split_named
from wakeful.profile_stores.worker_profiles import WorkerProfiles
from wakeful.registry.dependencies import Dependencies
from wakeful.registry.plugin_lifecycles import PluginLifecycles
from wakeful.registry.registry import Registry, check_registry
from wakeful.registry.source_refresh import refreshing_sources
from wakeful.serial_activations import SerialActivations
from wakeful.telemetry import instruments
from wakeful.telemetry.health import LOCALHOST, serving_health
from wakeful.telemetry.interceptor import TraceCarrier, propagation
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.run_scope import RunScope
from wakeful.telemetry.telemetry import OFF, Telemetry
from wakeful.telemetry.workflow_runner import TelemetryRunner
from wakeful.undecodable import tolerant_client
from wakeful.worker_health import WorkerHealth
from wakeful_activities import (
    AncestorsActivity,
    ArchiveActivity,
    CompactActivity,
    DeliverActivity,
    HistoryCache,
    HooksActivity,
    InferActivity,
    RemoteAgentActivity,
    ResolveActivity,
    RestoreActivity,
    ToolActivity,
)
from wakeful_activities.a2a.push import PushActivity
from wakeful_activities.a2a.task_news import TaskNews
from wakeful_activities.blocked_loop import warning_of_blocked_loop
from wakeful_activities.heartbeats import INTERVAL_SECONDS, LIVE_INTERVAL_SECONDS, HeartbeatIntervals
from wakeful_activities.history_cache import MAX_CACHED_BYTES
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.inference.breakers import DEFAULT_COOLDOWN_SECONDS, DEFAULT_FAILURES, CircuitBreakers
from wakeful_activities.mcp.agents import McpAgents
from wakeful_activities.mcp.calls import McpCalls
from wakeful_activities.mcp.connections import McpConnections, check_installed
from wakeful_activities.other_workers import OtherWorkers, Patience
from wakeful_activities.providers.built_in import built_in_providers
from wakeful_activities.run_gauges import measuring_runs
from wakeful_activities.sweep.rounds import sweeping
from wakeful_activities.user_code import MAX_ABANDONED, UserCode
from wakeful_workflows import A2aPush, AgentRun, ScheduledMessage, ThreadArchive, ToolTask, VersionedThreadArchive

BUILD_ID = f"wakeful-{version('wakeful')}"

MAX_LOCAL_ACTIVITIES = 100
"""Local tools and lifecycle hooks that run at a time."""

_logger = logging.getLogger("wakeful")


@dataclass(frozen=True)
class WorkerSettings:
    """The capacity of a worker process, and how it stops."""

    task_queue: str = DEFAULT_TASK_QUEUE
    inference_queue: str | None = None
    """Serve only this task queue, which the registry's `inference_queues` name, and no runs. None serves runs."""
    max_inferences_per_second: float | None = None
    """How many model calls of the inference queue Temporal starts, on all of its workers together."""
    max_concurrent_activities: int = 100
    """Model and tool calls at a time."""
    max_abandoned_threads: int = MAX_ABANDONED
    """Threads of sync tools, gates and hooks that do not return, before the worker stops with `WorkerExhausted`."""
    health_port: int | None = None
    """Where the worker answers the probes of its supervisor over HTTP; None means nowhere."""
    health_host: str = LOCALHOST
    """The interface of that port; probes from outside the machine or the pod need `0.0.0.0` or `::`."""
    max_cached_workflows: int = 1000
    """Runs in the sticky cache; one that is evicted is replayed for its next workflow task."""
    heartbeat_interval: timedelta = timedelta(seconds=INTERVAL_SECONDS)
    """How often model calls, tool calls and hooks heartbeat: a cancellation takes as long to reach them. Less than 5
    seconds."""
    live_heartbeat_interval: timedelta = timedelta(seconds=LIVE_INTERVAL_SECONDS)
    """How often they do if there is news, in runs whose sender watches them (`live=True`)."""
    graceful_shutdown: timedelta = timedelta(seconds=20)
    """How long activities may continue when the worker stops. Then they are cancelled, which takes a moment, too:
    Kubernetes kills a pod 30 seconds after SIGTERM."""
    sticky_timeout: timedelta = timedelta(seconds=1)
    """How long a workflow task waits for the worker that has its run in the cache before another worker gets it."""
    history_budget: HistoryBudget = HistoryBudget()
    """How long an execution's history may get before its thread continues as new."""
    build_id: str = BUILD_ID
    """The build id that history records with every task; set it to your release."""
    deployment: str | None = None
    """The Worker Deployment of which `build_id` is a version; None means no Worker Versioning."""
    versioning: VersioningBehavior = VersioningBehavior.AUTO_UPGRADE
    """PINNED keeps a run on the version it started on, whose workers must then stay up for as long as the run lives."""
    max_cached_bytes: int = MAX_CACHED_BYTES
    """Of conversations in the history cache; one that is evicted is rebuilt from history."""
    breaker_failures: int = DEFAULT_FAILURES
    """How many failures in a row open a model's circuit breaker, which spaces the calls of that model."""
    breaker_cooldown: timedelta = timedelta(seconds=DEFAULT_COOLDOWN_SECONDS)
    """How long an open breaker lets no call through, unless the provider's `Retry-After` says another time."""
    sweep_interval: timedelta | None = timedelta(seconds=5)
    """How often all workers of the queue together look for what was ended from outside; None: this one never does."""
    new_run_patience: timedelta = timedelta(minutes=2)
    """How long a new run is retried on other workers if this one does not know its agent; 0 fails it at once."""
    in_flight_patience: timedelta = timedelta(minutes=15)
    """The same for an agent, tool, gate, plugin or provider that a run in flight needs."""
    source_refresh: timedelta | None = timedelta(minutes=5)
    """How often the worker discovers the agents of the registry's sources again; None: only when it starts."""
    min_retention: timedelta | None = timedelta(days=3)
    """The worker logs a warning when it starts if the namespace keeps closed threads for less; None means never."""

    def __post_init__(self) -> None:
        if self.max_inferences_per_second is not None and self.inference_queue is None:
            raise ConfigurationError(
                ["max_inferences_per_second needs an inference_queue: it would limit tools and everything else, too"]
            )

    @property
    def polled_queue(self) -> str:
        """The task queue that the worker polls."""
        return self.inference_queue or self.task_queue

    @property
    def heartbeat_throttle(self) -> timedelta:
        """How often the SDK may have to send a heartbeat."""
        return min(self.live_heartbeat_interval, self.heartbeat_interval)


@contextlib.asynccontextmanager
async def running_worker(
    client: Client,
    registry: Registry,
    settings: WorkerSettings | None = None,
    *,
    profiles: ProfileStore | None = None,
) -> AsyncIterator[Worker]:
    """Run a worker while the body runs, and stop it gracefully afterwards.

    Args:
        profiles: the profile store, instead of the one that `WAKEFUL_PROFILES` names; you close it yourself.

    Raises:
        ConfigurationError: the registry has profile keys, and `WAKEFUL_PROFILES` names no known store; or the
            registry's lifespan raised.
        WorkerExhausted: too many sync tools, gates or hooks hang. The body is cancelled.
    """
    settings = settings or WorkerSettings()
    parts = WorkerParts(client, registry, settings, profiles=profiles)
    worker = _worker(tolerant_client(client), settings, parts)
    async with parts.running(worker) as health, worker, _stopping_when_exhausted(parts.user_code):
        try:
            yield worker
        finally:
            health.is_stopping = True


class WorkerParts:
    """What agents need of a worker: workflows and activities, and what runs beside them.

    `running_worker` makes a worker of them, and `WakefulPlugin` adds them to a worker of the user's own.
    """

    def __init__(
        self, client: Client, registry: Registry, settings: WorkerSettings, *, profiles: ProfileStore | None = None
    ) -> None:
        check_temporal(client, "running_worker")
        check_registry(registry, "running_worker")
        self._client = client
        self._registry = registry
        self._settings = settings
        self._profiles = WorkerProfiles(registry, os.environ, store=profiles)
        self._profiles.open()  # a wrong address fails here, and not in the first tool
        self._history = HistoryReader(client)
        self._reader = ThreadReader(client, history=self._history)
        self._built_in = built_in_providers(os.environ)
        self._dependencies = Dependencies(registry.lifespan)
        self._lifecycles = PluginLifecycles()
        self.telemetry = Telemetry.of_process(client)
        self.user_code = _user_code(self.telemetry.metrics, settings, self._dependencies)
        cache = HistoryCache(client, max_bytes=settings.max_cached_bytes, metrics=self.telemetry.metrics)
        patience = Patience(settings.new_run_patience, settings.in_flight_patience)
        self._others = OtherWorkers(registry, patience, worker=client.identity, client=client)
        self._mcp = McpConnections(os.environ)
        if settings.inference_queue is None:
            check_installed(sorted(registry.mcp_servers))
        self._resolve = ResolveActivity(
            registry,
            cache,
            self.user_code,
            self._others,
            budget=settings.history_budget,
            mcp=McpAgents(registry, self._mcp),
        )
        self._remote = self._remote_agents(cache)
        archives = VersionedThreadArchive if settings.deployment else ThreadArchive
        of_runs: list[type] = [AgentRun, ToolTask, ScheduledMessage, A2aPush, archives]
        self.workflows = [] if settings.inference_queue else of_runs
        self.activities = self._activities(cache)
        self._scope, self._news = RunScope(), TaskNews(client)

    @property
    def _metrics_of_runs(self) -> Metrics | None:
        return None if self._settings.inference_queue else self.telemetry.metrics

    @property
    def interceptors(self) -> list[Interceptor]:
        """What names the run in log lines, reports A2A tasks, and carries open spans over continue-as-new, if any."""
        always: list[Interceptor] = [self._scope, self._news]
        return always if self.telemetry.tracing is None else [*always, TraceCarrier()]

    def runner(self, runner: WorkflowRunner | None = None) -> WorkflowRunner:
        """The runner of the workflows, which turns telemetry on in them, unless it is off."""
        runner = runner or UnsandboxedWorkflowRunner()
        return SerialActivations(runner if self.telemetry == OFF else TelemetryRunner(runner, self.telemetry))

    def _remote_agents(self, cache: HistoryCache) -> RemoteAgentActivity:
        return RemoteAgentActivity(self._client, cache, self._others, self._intervals, self.telemetry)

    @property
    def _intervals(self) -> HeartbeatIntervals:
        settings = self._settings
        usual, live = settings.heartbeat_interval, settings.live_heartbeat_interval
        return HeartbeatIntervals(usual.total_seconds(), live.total_seconds())

    def _activities(self, cache: HistoryCache) -> list[Callable[..., Any]]:
        registry, settings, user_code, others = self._registry, self._settings, self.user_code, self._others
        hooks = Hooks(registry, user_code, self._profiles.open, self._lifecycles)
        gates = Gates(registry, user_code)
        breakers = CircuitBreakers(settings.breaker_failures, settings.breaker_cooldown.total_seconds())
        intervals, telemetry = self._intervals, self.telemetry
        inference = InferActivity(
            registry, cache, hooks, gates, self._built_in, breakers, intervals, others, telemetry=telemetry
        )
        mcp = McpCalls(registry, self._mcp, others)
        compaction, archive = CompactActivity(inference, cache), ArchiveActivity(self._client, self._history)
        deliver = DeliverActivity(self._reader)
        if settings.inference_queue is not None:
            return [inference.infer, compaction.compact]
        return [
            self._resolve.resolve_agent,
            self._resolve.describe_worker,
            RestoreActivity(self._client, self._history).restore_thread,
            archive.archive_thread,
            archive.check_archived_thread,
            archive.delete_expired_thread,
            deliver.deliver_message,
            deliver.wake_thread,
            AncestorsActivity(self._client).find_stopping_ancestor,
            PushActivity(self._reader, slots=settings.max_concurrent_activities).post_task_update,
            inference.infer,
            self._remote.call_remote_agent,
            self._remote.cancel_remote_task,
            compaction.compact,
            ToolActivity(registry, cache, hooks, gates, user_code, intervals, others, telemetry, mcp).call_tool,
            HooksActivity(cache, hooks, intervals, others).run_hooks,
        ]

    @contextlib.asynccontextmanager
    async def running(self, worker: Worker) -> AsyncIterator[WorkerHealth]:
        """Everything beside the worker, from before its first task until after its last: run the worker in the body.

        Raises:
            ConfigurationError: the registry's lifespan raised.
        """
        settings = self._settings

        kinds = (QueueKind.ACTIVITY,) if settings.inference_queue else (QueueKind.WORKFLOW, QueueKind.ACTIVITY)
        queue, last_task = settings.polled_queue, self._scope.last_task
        slots = settings.max_concurrent_activities
        health = WorkerHealth(self._client, queue, kinds, self.user_code, last_task, worker, slots)

        try:
            self._resolve.search_attributes = await ensure_search_attributes(self._client)
            if settings.min_retention is not None:
                await warn_of_short_retention(self._client, settings.min_retention)
            async with (
                warning_of_blocked_loop(),
                serving_health(settings.health_port, health.checks, host=settings.health_host),
                self._sources_refreshing(),
                self._news.running(),
                self._dependencies.running(self._registry),
                self._lifecycles.running(self._registry.plugins.values()),
                measuring_runs(self._client, self._metrics_of_runs, settings.task_queue),
                sweeping(
                    self._reader, settings.task_queue, None if settings.inference_queue else settings.sweep_interval
                ),
            ):
                yield health
        finally:
            await self._mcp.aclose()
            for provider in self._built_in.values():
                await provider.aclose()
            await self._remote.aclose()
            await self._profiles.aclose()
            await self._history.aclose()

    def _sources_refreshing(self) -> contextlib.AbstractAsyncContextManager[None]:
        # A worker of an inference queue looks up no agents.
        is_needed = self._settings.inference_queue is None
        return refreshing_sources(self._registry, self._settings.source_refresh) if is_needed else _nothing()


@contextlib.asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


def _worker(client: Client, settings: WorkerSettings, parts: WorkerParts) -> Worker:
    return Worker(
        client,
        task_queue=settings.polled_queue,
        max_task_queue_activities_per_second=settings.max_inferences_per_second,
        workflows=parts.workflows,
        activities=parts.activities,
        interceptors=[*propagation(client, parts.telemetry), *parts.interceptors],
        unsandboxed_workflow_runner=parts.runner(),
        build_id=None if settings.deployment else settings.build_id,
        deployment_config=_deployment(settings),
        max_concurrent_activities=settings.max_concurrent_activities,
        max_concurrent_local_activities=MAX_LOCAL_ACTIVITIES,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=settings.graceful_shutdown,
        sticky_queue_schedule_to_start_timeout=settings.sticky_timeout,
        # Heartbeats bring cancellation and carry live answers: they must not be throttled for longer.
        max_heartbeat_throttle_interval=settings.heartbeat_throttle,
        default_heartbeat_throttle_interval=settings.heartbeat_throttle,
    )


def _user_code(metrics: Metrics | None, settings: WorkerSettings, dependencies: Dependencies) -> UserCode:
    """Threads for as many sync calls as there can be: an activity makes one at a time."""

    def show(abandoned: int) -> None:
        if metrics is not None:
            metrics.record(instruments.ABANDONED, abandoned, {instruments.TASK_QUEUE: settings.task_queue})

    return UserCode(
        settings.max_concurrent_activities + MAX_LOCAL_ACTIVITIES,
        max_abandoned=settings.max_abandoned_threads,
        on_abandoned=show,
        dependencies=dependencies,
    )


@contextlib.asynccontextmanager
async def _stopping_when_exhausted(user_code: UserCode) -> AsyncIterator[None]:
    """Cancel the body when too many threads are abandoned, and raise why. Only a process can be stopped for sure."""
    body = asyncio.current_task()
    assert body is not None  # a coroutine runs in a task

    async def stop() -> None:
        await until_exhausted(user_code)
        body.cancel()

    stopping = asyncio.create_task(stop())
    try:
        yield
    except asyncio.CancelledError:
        if not user_code.is_full.is_set() or body.uncancel() > 0:
            raise
        raise exhausted(user_code) from None
    finally:
        stopping.cancel()


async def until_exhausted(user_code: UserCode) -> None:
    """Wait until too many threads are abandoned."""
    await user_code.is_full.wait()
    _logger.error("worker exhausted: it stops, to be replaced", extra={"abandoned": user_code.abandoned})


def exhausted(user_code: UserCode) -> WorkerExhausted:
    return WorkerExhausted(
        f"the worker stops, because {user_code.abandoned} sync tools, gates or hooks still run although their calls "
        "have timed out or were cancelled: start it again, and give that code timeouts of its own (the log names it in "
        "'thread abandoned')"
    )


def _deployment(settings: WorkerSettings) -> WorkerDeploymentConfig | None:
    if settings.deployment is None:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=settings.deployment, build_id=settings.build_id),
        use_worker_versioning=True,
        default_versioning_behavior=settings.versioning,
    )


async def serve(client: Client, registry: Registry, settings: WorkerSettings, *, until: asyncio.Event) -> None:
    """Run a worker until `until` is set; raise the error if it fails before."""
    async with running_worker(client, registry, settings) as worker:
        del worker  # a fatal error of the worker cancels this body, and the context raises it
        await until.wait()


def load_registry(app: str | None, *, agent_files: Sequence[Path] = ()) -> Registry:
    """The registry that `module:name` or `path/to/file.py:name` names, with the agents of files and directories.

    Args:
        app: None means a registry of nothing but files.

    Raises:
        ConfigurationError: it cannot be imported, is missing, is not a registry, or conflicts with the files.
    """
    registry = Registry() if app is None else _registry(app)
    return registry.copy(agent_files=[*registry.agent_files, *agent_files]) if agent_files else registry


def _registry(app: str) -> Registry:
    found = import_named("--app", app, example="registry")
    if not isinstance(found, Registry):
        name, kind = split_named(app)[1], "is missing" if found is None else f"is a {type(found).__name__}"
        raise ConfigurationError([f"--app {app!r}: {name!r} {kind}; it must be a wakeful.Registry"])
    return found
