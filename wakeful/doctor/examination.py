"""Every check of an installation, in the order in which a person would make them.

What needs Temporal is skipped if it cannot be reached; the stores, the providers and the versions are checked anyway.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from temporalio.client import Client

from wakeful.connection import DEFAULT_NAMESPACE, Address
from wakeful.contract.names import DEFAULT_TASK_QUEUE
from wakeful.doctor import queue_checks
from wakeful.doctor.access_checks import check_clock, check_permissions
from wakeful.doctor.archive_checks import check_archives
from wakeful.doctor.open_runs import read_open_runs
from wakeful.doctor.provider_checks import check_providers
from wakeful.doctor.report import SetupCheck, SetupReport, skipped
from wakeful.doctor.run_checks import check_payloads, check_retries, check_workflow_tasks
from wakeful.doctor.server_checks import check_attributes, check_namespace, reach
from wakeful.doctor.store_checks import check_payload_store, check_profile_store
from wakeful.doctor.version_checks import check_versions
from wakeful.registry.registry import Registry

OF_TEMPORAL = (
    "namespace",
    "search attributes",
    "permissions",
    "clock",
    "workers",
    "backlog",
    "workflow tasks",
    "retries",
    "payloads",
    "archives",
)
"""The checks that need Temporal."""


@dataclass(frozen=True)
class Installation:
    """What is examined.

    Args:
        registry: of the workers; without it, only the task queue and the environment say what they need.
        now: the time of this machine, in seconds since 1970.
    """

    where: Address = field(default_factory=Address)
    registry: Registry | None = None
    task_queue: str = DEFAULT_TASK_QUEUE
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: Callable[[], float] = time.time


async def examine(installation: Installation) -> SetupReport:
    """Check everything. Nothing is written to a history."""
    registry, environ = installation.registry, installation.environ
    beside = asyncio.create_task(check_providers(registry, environ))  # they may be slow, and need no Temporal
    client, server = await reach(installation.where)
    namespace = client.namespace if client is not None else DEFAULT_NAMESPACE
    read: queue_checks.Read = {}
    of_temporal = [skipped(name, "Temporal cannot be used") for name in OF_TEMPORAL]
    if client is not None:
        of_temporal, read = await _of_temporal(client, installation)
    stores = [await check_payload_store(namespace, environ), await check_profile_store(registry, environ)]
    versions = check_versions(read.values())
    return SetupReport(checks=(server, *of_temporal, *stores, *await beside, versions))


async def _of_temporal(client: Client, installation: Installation) -> tuple[list[SetupCheck], queue_checks.Read]:
    runs, *first = await asyncio.gather(
        read_open_runs(client),
        check_namespace(client),
        check_attributes(client),
        check_permissions(client),
        check_clock(client, installation.now),
    )
    used = queue_checks.queues_in_use(installation.task_queue, installation.registry, runs)
    read, *of_runs = await asyncio.gather(
        queue_checks.read_queues(client, used),
        check_workflow_tasks(client, runs),
        check_retries(client, runs),
        check_payloads(client, runs),
        check_archives(client),
    )
    of_queues = (queue_checks.check_workers(used, read), queue_checks.check_backlog(used, read))
    return [*first, *of_queues, *of_runs], read
