"""Composition: a Temporal worker from a registry and a client, with every workflow and activity that agents need.

The only module that imports workflows and activities together. `worker.py` at the top of the repository runs it.
"""

import asyncio
import contextlib
import importlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig

from wakeful.authoring.profiles import ProfileStore
from wakeful.client.thread_reader import ThreadReader
from wakeful.connection import ensure_search_attributes, warn_of_short_retention
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.names import DEFAULT_TASK_QUEUE
from wakeful.history.reader import HistoryReader
from wakeful.profile_stores.worker_profiles import WorkerProfiles
from wakeful.registry.plugin_lifecycles import PluginLifecycles
from wakeful.registry.registry import Registry
from wakeful.undecodable import tolerant_client
from wakeful_activities import (
    ArchiveActivity,
    CompactActivity,
    DeliverActivity,
    HistoryCache,
    HooksActivity,
    InferActivity,
    ResolveActivity,
    RestoreActivity,
    ToolActivity,
)
from wakeful_activities.history_cache import DEFAULT_CAPACITY
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.providers.built_in import built_in_providers
from wakeful_activities.sweep.orphans import sweeping
from wakeful_workflows import AgentRun, ThreadArchive, ToolTask, VersionedThreadArchive

HEARTBEAT_THROTTLE = timedelta(milliseconds=200)
BUILD_ID = f"wakeful-{version('wakeful')}"


@dataclass(frozen=True)
class WorkerSettings:
    """The capacity of a worker process, and how it stops."""

    task_queue: str = DEFAULT_TASK_QUEUE
    max_concurrent_activities: int = 100
    """Model and tool calls at a time; sync tools share as many threads."""
    hook_threads: int = 32
    """Threads for sync hooks."""
    gate_threads: int = 32
    """Threads for sync gates."""
    max_cached_workflows: int = 1000
    """Runs in the sticky cache; one that is evicted is replayed for its next workflow task."""
    graceful_shutdown: timedelta = timedelta(seconds=30)
    """How long activities may continue when the worker stops."""
    sticky_timeout: timedelta = timedelta(seconds=5)
    """How long a workflow task waits for a worker that has died before another worker gets it."""
    history_budget: HistoryBudget = HistoryBudget()
    """How long an execution's history may get before its thread continues as new."""
    build_id: str = BUILD_ID
    """The build id that history records with every task; set it to your release."""
    deployment: str | None = None
    """The Worker Deployment of which `build_id` is a version; None means no Worker Versioning."""
    versioning: VersioningBehavior = VersioningBehavior.AUTO_UPGRADE
    """PINNED keeps a run on the version it started on, whose workers must then stay up for as long as the run lives."""
    cached_threads: int = DEFAULT_CAPACITY
    """Transcripts in the history cache; one that is evicted is rebuilt from history."""
    sweep_interval: timedelta | None = timedelta(seconds=5)
    """How often the worker looks for sub-agents whose parents were terminated; None means never."""
    min_retention: timedelta | None = timedelta(days=3)
    """The worker logs a warning when it starts if the namespace keeps closed threads for less; None means never."""


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
        ConfigurationError: the registry has profile keys, and `WAKEFUL_PROFILES` names no known store.
    """
    settings = settings or WorkerSettings()
    worker_profiles = WorkerProfiles(registry, os.environ, store=profiles)
    worker_profiles.open()  # a wrong address fails here, and not in the first tool
    history = HistoryReader(client)
    reader = ThreadReader(client, history=history)
    cache = HistoryCache(client, capacity=settings.cached_threads)
    built_in = built_in_providers(os.environ)
    threads = _pool("tool", settings.max_concurrent_activities)
    hook_threads, gate_threads = _pool("hook", settings.hook_threads), _pool("gate", settings.gate_threads)
    lifecycles = PluginLifecycles()
    hooks, gates = Hooks(registry, hook_threads, worker_profiles.open, lifecycles), Gates(registry, gate_threads)
    inference = InferActivity(registry, cache, hooks, gates, built_in)
    has_attributes = await ensure_search_attributes(client)
    if settings.min_retention is not None:
        await warn_of_short_retention(client, settings.min_retention)
    archive = ArchiveActivity(client, history)
    resolve = ResolveActivity(registry, cache, search_attributes=has_attributes, budget=settings.history_budget)
    activities: list[Callable[..., Any]] = [
        resolve.resolve_agent,
        RestoreActivity(client, history).restore_thread,
        archive.archive_thread,
        archive.check_archived_thread,
        archive.delete_expired_thread,
        DeliverActivity(reader).deliver_message,
        inference.infer,
        CompactActivity(inference, cache).compact,
        ToolActivity(registry, cache, hooks, gates, threads).call_tool,
        HooksActivity(cache, hooks).run_hooks,
    ]
    worker = _worker(tolerant_client(client), settings, activities)
    try:
        async with (
            lifecycles.running(registry.plugins.values()),
            worker,
            sweeping(reader, settings.task_queue, settings.sweep_interval),
        ):
            yield worker
    finally:
        for provider in built_in.values():
            await provider.aclose()
        await worker_profiles.aclose()
        await history.aclose()
        for pool in (threads, hook_threads, gate_threads):
            pool.shutdown(wait=False, cancel_futures=True)


def _worker(client: Client, settings: WorkerSettings, activities: Sequence[Callable[..., Any]]) -> Worker:
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[AgentRun, ToolTask, VersionedThreadArchive if settings.deployment else ThreadArchive],
        activities=activities,
        build_id=None if settings.deployment else settings.build_id,
        deployment_config=_deployment(settings),
        max_concurrent_activities=settings.max_concurrent_activities,
        max_cached_workflows=settings.max_cached_workflows,
        graceful_shutdown_timeout=settings.graceful_shutdown,
        sticky_queue_schedule_to_start_timeout=settings.sticky_timeout,
        # Heartbeats bring cancellation and carry live answers: they must not be throttled for long.
        max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
    )


def _pool(name: str, size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix=f"wakeful-{name}")


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
    registry = Registry() if app is None else _imported(app)
    return registry.copy(agent_files=[*registry.agent_files, *agent_files]) if agent_files else registry


def _imported(app: str) -> Registry:
    module_name, _, attribute = app.partition(":")
    if not (module_name and attribute):
        forms = "module:registry or path/to/file.py:registry"
        example = f"{app.rstrip(':')}:registry" if module_name else "myapp:registry"
        raise ConfigurationError([f"--app {app!r} must be written as {forms}, for example {example}"])
    module_path = Path(module_name)
    if module_path.suffix == ".py":
        if not module_path.is_file():  # its import would miss a module instead
            raise ConfigurationError([f"--app {app!r}: the file {module_name!r} does not exist"])
        sys.path.insert(0, str(module_path.parent.resolve()))
        module_name = module_path.stem
    elif "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise ConfigurationError(
                [f"--app {app!r}: {module_name} needs {error.name!r}, which is missing"]
            ) from error
        raise ConfigurationError([f"--app {app!r}: there is no module {module_name!r} here or on the path"]) from error
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise ConfigurationError([f"--app {app!r}: syntax error in {where}: {error.msg}"]) from error
    registry = getattr(module, attribute, None)
    if not isinstance(registry, Registry):
        found = "is missing" if registry is None else f"is a {type(registry).__name__}"
        raise ConfigurationError([f"--app {app!r}: {attribute!r} {found}; it must be a wakeful.Registry"])
    return registry
