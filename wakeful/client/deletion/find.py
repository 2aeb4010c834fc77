"""Find every workflow that belongs to a thread: its executions, its descendants, and the archives and push
notifications of all of them.

Temporal's visibility lists them; it is eventually consistent, so the newest execution of each thread is also described,
which names the children that are running. A fork is not found: it has an id of its own, and no parent.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError

from wakeful.contract import ids, names
from wakeful.contract.errors import CallerError
from wakeful.history.list_queries import quoted
from wakeful.rpc_errors import describe_execution, error_of

IDS_PER_QUERY = 10
MAX_CONCURRENT_CALLS = 16

_THREADS = (names.WORKFLOW, names.WORKFLOW_TOOL_TASK)
_PARENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_PARENT)


@dataclass(frozen=True, order=True)
class ExecutionKey:
    """Names one execution."""

    workflow_id: str
    run_id: str


@dataclass(frozen=True)
class Belongings:
    """What belongs to a thread."""

    threads: tuple[str, ...]
    """The thread, its sub-agents and its background tasks; parents come before their children."""
    archives: tuple[str, ...]
    executions: Mapping[ExecutionKey, bool]
    """Of all of them, and whether each is open."""
    pushes: tuple[str, ...] = ()
    """The workflows that send push notifications."""

    @property
    def open(self) -> tuple[ExecutionKey, ...]:
        """The open executions, parents first; before them what would notify clients of their ends."""
        places = {id: place for place, id in enumerate((*self.pushes, *self.threads, *self.archives))}
        is_open = (key for key, is_open in self.executions.items() if is_open)
        return tuple(sorted(is_open, key=lambda key: places[key.workflow_id]))


class BelongingsFinder:
    """Finds what belongs to one thread, also repeatedly: an id that it has found stays known."""

    def __init__(self, temporal: Client, thread_id: str, spared: str | None = None) -> None:
        self._temporal = temporal
        self._thread_id = thread_id
        self._spared = spared
        """A workflow that is not looked for."""
        self._threads = [thread_id]
        self._archives = list[str]()
        self._pushes = list[str]()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

    async def find(self) -> Belongings:
        """Everything that the server has now.

        Raises:
            WakefulError: the server refused a request, or is unreachable.
        """
        executions = dict[ExecutionKey, bool]()
        try:
            searched = 0
            while searched < len(self._threads):
                unsearched = self._threads[searched : searched + IDS_PER_QUERY]
                searched += len(unsearched)
                for execution in (*await self._newest(unsearched), *await self._listed(unsearched)):
                    if self._belongs(execution):
                        is_open = execution.status is WorkflowExecutionStatus.RUNNING
                        executions.setdefault(ExecutionKey(execution.id, execution.run_id), is_open)
        except RPCError as error:
            raise error_of(error, self._thread_id) from error
        return Belongings(tuple(self._threads), tuple(self._archives), executions, tuple(self._pushes))

    async def check_is_root(self) -> None:
        """Refuse a sub-agent of a thread that exists: what it was asked and has answered is in its parent's history.

        Raises:
            CallerError: it is one.
        """
        if (parent := await self.parent()) is not None:
            raise CallerError(
                f"thread {self._thread_id!r} is a sub-agent of thread {parent!r}, whose history has what it was asked "
                f"and what it answered: delete thread {parent!r}"
            )

    async def parent(self) -> str | None:
        """The thread whose sub-agent it is, if that exists."""
        try:
            query = f"WorkflowId = {quoted(self._thread_id)}"
            parents = {parent async for each in self._temporal.list_workflows(query) if (parent := parent_of(each))}
            for parent in sorted(parents):
                described = await self.describe(parent)
                if described is not None and described.workflow_type == names.WORKFLOW:
                    return parent
        except RPCError as error:
            raise error_of(error, self._thread_id) from error
        return None

    async def describe(self, id: str, run_id: str | None = None) -> WorkflowExecutionDescription | None:
        """An execution, or the newest one of a workflow; None if there is none."""
        async with self._slots:
            return await describe_execution(self._temporal, id, run_id)

    def _belongs(self, execution: WorkflowExecution) -> bool:
        id, kind = execution.id, execution.workflow_type
        if id == self._spared:
            return False
        if kind == names.WORKFLOW_ARCHIVE:
            belongs = ids.archived_thread_id(id) in self._threads
            if belongs and id not in self._archives:
                self._archives.append(id)
            return belongs
        if kind == names.WORKFLOW_A2A_PUSH:
            belongs = ids.pushed_thread_id(id) in self._threads
            if belongs and id not in self._pushes:
                self._pushes.append(id)
            return belongs
        if kind not in _THREADS:
            return False
        if id in self._threads:
            return True
        belongs = execution.root_id == self._thread_id or parent_of(execution) in self._threads
        if belongs:
            self._threads.append(id)
        return belongs

    async def _listed(self, threads: Sequence[str]) -> list[WorkflowExecution]:
        query = " OR ".join(
            f"WorkflowId = {quoted(id)} OR WorkflowId STARTS_WITH {quoted(id + '/')}"
            f" OR ParentWorkflowId = {quoted(id)} OR RootWorkflowId = {quoted(id)}"
            for id in threads
        )
        listed = [execution async for execution in self._temporal.list_workflows(query)]
        # Parents before children, and threads before their archives, which are known by them.
        return sorted(listed, key=lambda each: (each.workflow_type == names.WORKFLOW_ARCHIVE, each.start_time))

    async def _newest(self, threads: Iterable[str]) -> list[WorkflowExecution]:
        """The newest execution of each thread, of its last archive and of its push notifications.

        The children that it waits for become known.
        """
        wanted = [id for thread_id in threads for id in _of_thread(thread_id)]
        newest = [each for each in await asyncio.gather(*map(self.describe, wanted)) if each is not None]
        for described in newest:
            children = described.raw_description.pending_children
            started = [child.workflow_id for child in children if child.workflow_type_name in _THREADS]
            self._threads += [id for id in started if described.id in self._threads and id not in self._threads]
        return list[WorkflowExecution](newest)


def _of_thread(thread_id: str) -> tuple[str, ...]:
    return thread_id, ids.last_archive_id(thread_id), ids.push_id(thread_id)


def parent_of(execution: WorkflowExecution) -> str | None:
    """The parent of a sub-agent or a task; Temporal does not know that of a sub-agent that was woken."""
    return execution.parent_id or execution.typed_search_attributes.get(_PARENT)
