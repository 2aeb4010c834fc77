"""`WakefulPlugin`: agents as a guest in a Temporal worker of the user's own.

The worker keeps its interceptors, runtime, capacity and versioning, and its workflows stay in the sandbox. The plugin
adds what `running_worker` would run in a worker of its own: the workflows, the activities, and what runs beside them.
"""

import asyncio
import contextlib
import dataclasses
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import temporalio.client
import temporalio.worker
from temporalio import activity, workflow
from temporalio.client import Client, ClientConfig, WorkflowHistory
from temporalio.common import VersioningBehavior
from temporalio.converter import DataConverter, DefaultPayloadConverter
from temporalio.exceptions import FailureError
from temporalio.service import ConnectConfig, ServiceClient
from temporalio.worker import (
    Replayer,
    ReplayerConfig,
    Worker,
    WorkerConfig,
    WorkerDeploymentConfig,
    WorkflowReplayResult,
)

from wakeful.authoring.profiles import ProfileStore
from wakeful.contract.errors import ConfigurationError
from wakeful.registry.registry import Registry, check_registry
from wakeful.storage import converts_models, with_pydantic
from wakeful.telemetry.interceptor import check_propagation
from wakeful.worker import WorkerParts, WorkerSettings, exhausted, until_exhausted
from wakeful_workflows import A2aPush, AgentRun, ScheduledMessage, ThreadArchive, ToolTask

OF_THE_WORKER = {
    "task_queue": "task_queue",
    "max_inferences_per_second": "max_task_queue_activities_per_second",
    "max_concurrent_activities": "max_concurrent_activities",
    "max_cached_workflows": "max_cached_workflows",
    "graceful_shutdown": "graceful_shutdown_timeout",
    "sticky_timeout": "sticky_queue_schedule_to_start_timeout",
    "build_id": "build_id",
    "deployment": "deployment_config",
    "versioning": "deployment_config",
}
"""Settings that a worker of the user's own has already, by the argument of `Worker` that sets them."""

MAX_ACTIVITIES = 100
"""What the SDK runs at a time, if its worker does not say."""


class WakefulPlugin(temporalio.client.Plugin, temporalio.worker.Plugin):
    """Agents in a worker of your own: `Worker(client, ..., plugins=[WakefulPlugin(registry)])`.

    Pass it to the worker, to a `Replayer`, or to the client, whose workers then all serve the agents; but to each
    worker once.

    Args:
        settings: of the agents. The worker's own arguments set the task queue, the capacity and the versioning.
        profiles: the profile store, instead of the one that `WAKEFUL_PROFILES` names; you close it yourself.

    Raises:
        ConfigurationError: `registry` is not a registry, or a setting belongs to the worker.
    """

    def __init__(
        self, registry: Registry, settings: WorkerSettings | None = None, *, profiles: ProfileStore | None = None
    ) -> None:
        check_registry(registry, "WakefulPlugin")
        self._registry = registry
        self._settings = settings or WorkerSettings()
        self._profiles = profiles
        self._parts: list[WorkerParts] = []
        """Of every worker that has the plugin and has not ended."""
        if problems := list(_settings_problems(self._settings)):
            raise ConfigurationError(problems)

    def name(self) -> str:
        return "wakeful.WakefulPlugin"

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        """Write pydantic models as JSON, unless the client has a payload converter of its own."""
        config["data_converter"] = with_pydantic(config["data_converter"])
        return config

    async def connect_service_client(
        self, config: ConnectConfig, next: Callable[[ConnectConfig], Awaitable[ServiceClient]]
    ) -> ServiceClient:
        return await next(config)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add the workflows and activities of agents.

        Raises:
            ConfigurationError: they do not go together with what the worker has.
        """
        client = config["client"]
        problems = [*_worker_problems(config, self._registry), *_converter_problems(client)]
        queue, inference_queue = config["task_queue"], self._settings.inference_queue
        if inference_queue not in (None, queue):
            problems.append(
                f"WorkerSettings names the inference queue {inference_queue!r}, and the worker has the task queue "
                f"{queue!r}: make them the same, or leave inference_queue out for a worker that serves runs"
            )
        if problems:
            raise ConfigurationError(problems)
        settings = dataclasses.replace(
            self._settings,
            task_queue=queue,
            max_concurrent_activities=config.get("max_concurrent_activities") or MAX_ACTIVITIES,
            deployment=_deployment_name(config.get("deployment_config")),
        )
        parts = WorkerParts(client, self._registry, settings, profiles=self._profiles)
        self._parts.append(parts)
        check_propagation(config, parts.telemetry)
        config["workflows"] = [*config.get("workflows", ()), *parts.workflows]
        config["activities"] = [*config.get("activities", ()), *parts.activities]
        config["interceptors"] = [*config.get("interceptors", ()), *parts.interceptors]
        config["unsandboxed_workflow_runner"] = parts.runner(config.get("unsandboxed_workflow_runner"))
        # Heartbeats bring cancellation and carry live answers: the SDK's defaults would throttle them to one a minute.
        for throttle in ("max_heartbeat_throttle_interval", "default_heartbeat_throttle_interval"):
            if config.get(throttle) == _sdk_default(throttle):
                config[throttle] = settings.heartbeat_throttle
        return config

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:
        """Run the worker, and everything beside it.

        Raises:
            ConfigurationError: the registry's lifespan raised: the worker does not start.
            WorkerExhausted: too many sync tools, gates or hooks hang: the worker has shut down.
        """
        parts = self._parts_of(worker)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._parts.remove, parts)
            try:
                # Again: a plugin that stands behind this one has configured the worker since.
                if problems := _failure_type_problems(worker.config(active_config=True)):
                    raise ConfigurationError(problems)
                await stack.enter_async_context(parts.running(worker))
            except BaseException:
                # As the SDK does for a worker that it cannot start: `async with worker` would wait for ever.
                worker._shutdown_complete_event.set()
                raise
            await _run_unless_exhausted(worker, next, parts)

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """Add the workflows of agents, and write pydantic models as JSON."""
        ours = (AgentRun, ToolTask, ThreadArchive, ScheduledMessage, A2aPush)
        config["workflows"] = [*config.get("workflows", ()), *ours]
        config["data_converter"] = with_pydantic(config.get("data_converter") or DataConverter.default)
        return config

    def run_replayer(
        self,
        replayer: Replayer,
        histories: AsyncIterator[WorkflowHistory],
        next: Callable[
            [Replayer, AsyncIterator[WorkflowHistory]],
            AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]],
        ],
    ) -> AbstractAsyncContextManager[AsyncIterator[WorkflowReplayResult]]:
        return next(replayer, histories)

    def _parts_of(self, worker: Worker) -> WorkerParts:
        has = worker.config(active_config=True)["activities"]
        return next(parts for parts in self._parts if parts.activities[0] in has)


async def _run_unless_exhausted(worker: Worker, next: Callable[[Worker], Awaitable[None]], parts: WorkerParts) -> None:
    """Run the worker; shut it down when too many threads are abandoned, and raise why."""
    is_exhausted = False

    async def stop() -> None:
        nonlocal is_exhausted
        await until_exhausted(parts.user_code)
        is_exhausted = True
        await worker.shutdown()

    stopping = asyncio.create_task(stop())
    try:
        await next(worker)
    finally:
        stopping.cancel()
    if is_exhausted:
        raise exhausted(parts.user_code)


def _settings_problems(settings: WorkerSettings) -> Sequence[str]:
    usual = WorkerSettings()
    return [
        f"WorkerSettings({setting}=…) has no effect in WakefulPlugin: pass {argument}=… to the Worker itself"
        for setting, argument in OF_THE_WORKER.items()
        if getattr(settings, setting) != getattr(usual, setting)
    ]


def _worker_problems(config: WorkerConfig, registry: Registry) -> Sequence[str]:
    problems = []
    if AgentRun in config.get("workflows", ()):
        problems.append(
            "the worker has two WakefulPlugins, or AgentRun in its workflows: pass one plugin, to the client or to the "
            "worker, and no workflow of ours"
        )
        return problems
    problems += _failure_type_problems(config)
    names = [_activity_name(function) for function in config.get("activities", ())]
    if None in names:
        problems.append(
            "the worker has a dynamic activity of its own, and a worker can have one: it is what calls tools. Give the "
            "agents a worker on another task queue"
        )
    for name in sorted({name for name in names if name is not None and name in registry.tools}):
        problems.append(
            f"the worker has an activity {name!r}, and the registry a tool {name!r}: calls of the tool would run the "
            "activity. Rename one of them"
        )
    deployment = config.get("deployment_config")
    if (
        deployment is not None
        and deployment.use_worker_versioning
        and deployment.default_versioning_behavior is VersioningBehavior.UNSPECIFIED
    ):
        problems.append(
            "the worker's deployment_config has no default_versioning_behavior, and the workflows of agents have none "
            "of their own: set it to VersioningBehavior.AUTO_UPGRADE"
        )
    return problems


_RAISED_BY_RUNS = ("builtins", "asyncio", "temporalio", "wakeful", "wakeful_workflows", "pydantic_core", "google")
"""Packages whose exceptions end a workflow task of a run that waits for a worker with the right code or codec."""


def _failure_type_problems(config: WorkerConfig) -> Sequence[str]:
    """Types that would end such a run. Other libraries' own types never occur in runs: no user code is in them."""
    types = [type for type in config.get("workflow_failure_exception_types", ()) if _ends_runs(type)]
    return [
        f"{_origin(type, config)} sets workflow_failure_exception_types with {type.__qualname__!r}, which would end "
        "runs that wait for the right worker: leave it out, and name the type in your own workflows, as "
        "@workflow.defn(failure_exception_types=[…])"
        for type in types
    ]


def _ends_runs(kind: type[BaseException]) -> bool:
    if kind in workflow._Definition.must_from_class(AgentRun).failure_exception_types:
        return False
    # Temporal's own integrations are packages of `temporalio`, too; what the SDK itself raises is in these modules.
    package = kind.__module__ if kind.__module__.startswith("temporalio.") else kind.__module__.partition(".")[0]
    is_ours = package in _RAISED_BY_RUNS or package.startswith(_OF_THE_SDK)
    return is_ours and not issubclass(kind, FailureError)


_OF_THE_SDK = ("temporalio.exceptions", "temporalio.workflow", "temporalio.worker", "temporalio.converter")


def _origin(kind: type[BaseException], config: WorkerConfig) -> str:
    """What sets the type: a plugin by its name, or the worker."""
    plugins: list[Any] = [*config["client"].config().get("plugins", ()), *config.get("plugins", ())]
    for plugin in plugins:
        types = getattr(plugin, "workflow_failure_exception_types", None)
        if types is not None and kind in (types(()) if callable(types) else types):
            return f"the plugin {plugin.name()!r}"
    return "the worker"


def _converter_problems(client: Client) -> Sequence[str]:
    """Whether the client can write and read what agents send."""
    converter = client.data_converter
    kind = converter.payload_converter_class
    if kind is not DefaultPayloadConverter and converts_models(converter):
        return []
    found = (
        "the SDK's default data converter, which" if kind is DefaultPayloadConverter else f"{kind.__name__!r}, which"
    )
    return [
        f"the client has {found} does not convert pydantic models: connect with "
        "data_converter=temporalio.contrib.pydantic.pydantic_data_converter, or, if you have a codec, with "
        "dataclasses.replace(pydantic_data_converter, payload_codec=…)"
    ]


def _deployment_name(config: WorkerDeploymentConfig | None) -> str | None:
    return config.version.deployment_name if config is not None and config.use_worker_versioning else None


def _activity_name(function: Callable[..., Any]) -> str | None:
    """The name of an activity; None for a dynamic one."""
    definition = activity._Definition.from_callable(function)
    return "" if definition is None else definition.name


def _sdk_default(argument: str) -> timedelta:
    default: timedelta = inspect.signature(Worker).parameters[argument].default
    return default
