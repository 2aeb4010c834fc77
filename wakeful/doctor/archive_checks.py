"""Archives without a thread: what was deleted by hand, and left its archives behind."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.diagnosis.wording import code, counted, wakeful
from wakeful.connection import retention_of
from wakeful.contract import ids, names
from wakeful.doctor.open_runs import list_executions, named
from wakeful.doctor.report import SetupCheck, skipped, warning
from wakeful.history.list_queries import any_of
from wakeful.rpc_errors import describe_execution
from wakeful_activities.archive import WAKE_TIME

MAX_ARCHIVES = 1_000
SLACK = timedelta(hours=1)
MAX_CONFIRMED = 50
"""Missing threads that are looked up one by one, because lists may lag behind."""


async def check_archives(client: Client) -> SetupCheck:
    """Whether every open archive has a thread that it belongs to, or will end soon because its thread has expired."""
    name = "archives"
    query = f"WorkflowType = '{names.WORKFLOW_ARCHIVE}' AND ExecutionStatus = 'Running'"
    try:
        archives = await list_executions(client, query, MAX_ARCHIVES)
        newest = dict[str, datetime]()
        for archive in archives:
            thread_id = ids.archived_thread_id(archive.id)
            newest[thread_id] = max(archive.start_time, newest.get(thread_id, archive.start_time))
        missing = await _missing(client, sorted(newest))
        orphaned = await _unexpected(client, {thread_id: newest[thread_id] for thread_id in missing})
    except RPCError as failure:
        return skipped(name, f"they could not be listed: {failure.message}")
    if not orphaned:
        return SetupCheck(name=name, summary=f"{len(archives):,}, each with its thread" if archives else "none yet")
    left = [archive.id for archive in archives if ids.archived_thread_id(archive.id) in orphaned]
    problem = warning(
        f"{counted(len(left), 'archive')} of {counted(len(orphaned), 'thread')} that the server does not have "
        f"{'is' if len(left) == 1 else 'are'} left: {named(orphaned)}. Threads were deleted without Wakeful, or were "
        "terminated and then deleted at the end of their retention.",
        f"{code(wakeful('delete', orphaned[0]))} deletes what is left of the first; an archive ends by itself within "
        "about six weeks.",
        *orphaned,
    )
    return SetupCheck(name=name, problems=(problem,))


async def _unexpected(client: Client, missing: Mapping[str, datetime]) -> list[str]:
    """Those missing threads whose archives do not end soon: an archive outlives its thread's retention by a day."""
    if not missing:
        return []
    request = DescribeNamespaceRequest(namespace=client.namespace)
    retention = retention_of(await client.workflow_service.describe_namespace(request))
    now = datetime.now(UTC)
    return [
        thread_id
        for thread_id, archived_at in missing.items()
        if not retention <= now - archived_at <= retention + WAKE_TIME + SLACK
    ]


async def _missing(client: Client, threads: list[str]) -> list[str]:
    found = set[str]()
    for condition in any_of("WorkflowId", threads):
        found |= {each.id async for each in client.list_workflows(condition)}
    missing = [thread_id for thread_id in threads if thread_id not in found][:MAX_CONFIRMED]
    described = await asyncio.gather(*(describe_execution(client, thread_id) for thread_id in missing))
    return [thread_id for thread_id, each in zip(missing, described, strict=True) if each is None]
