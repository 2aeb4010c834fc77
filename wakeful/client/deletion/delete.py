"""Delete a thread: its executions, archives and descendants on the server, and its payloads and profiles in the stores.

It needs no worker. Everything that is open is terminated first, parents before children, so that nothing starts again:
a result that a task reports to a terminated thread, or to one that does not exist, is dropped. Then children are
deleted before their parents: if this is interrupted, the next call still finds the rest. A workflow that was started
meanwhile is found in the next round.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from datetime import timedelta
from time import monotonic

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wakeful.authoring.profiles import ProfileStore, thread_owner
from wakeful.client.deletion.find import MAX_CONCURRENT_CALLS, Belongings, BelongingsFinder, ExecutionKey, parent_of
from wakeful.contract import names
from wakeful.contract.base import Few, Wire
from wakeful.contract.errors import CallerError, WakefulError
from wakeful.history.archive import delete_execution
from wakeful.rpc_errors import RETRYABLE, error_of
from wakeful.storage import delete_stored, foreign_store

PATIENCE = timedelta(minutes=3)
"""How long a deletion continues without any progress: by default, the server takes half a minute for an execution that
has just closed."""

PAUSES_SECONDS = (0.1, 1.0)
"""The shortest and the longest pause between two looks at the server, which deletes in the background."""

REPEAT_SECONDS = 30.0
"""Before the server is asked again to delete an execution that still exists."""

TERMINATED = "the thread is being deleted"


class NotDeleted(Wire):
    """Something that still exists."""

    id: str
    """A workflow id, or the owner of profiles."""
    reason: str


class DeleteReceipt(Wire):
    """What a deletion has deleted, and what it could not."""

    thread_id: str
    found: bool
    """False if there was nothing to delete: no such thread, or an earlier call has deleted it."""
    threads: Few[tuple[str, ...]] = ()
    """The thread, its sub-agents and its background tasks, as far as the server had them."""
    archives: Few[tuple[str, ...]] = ()
    executions: Few[int] = 0
    """Workflow executions, of all of these."""
    payloads: Few[int] = 0
    """Payloads that were stored outside history."""
    profiles: Few[int] = 0
    remaining: Few[tuple[NotDeleted, ...]] = ()


async def plan_delete(temporal: Client, thread_id: str) -> Belongings:
    """What a deletion would delete; nothing is changed yet.

    Raises:
        CallerError: the thread is a sub-agent of a thread that exists.
    """
    finder = BelongingsFinder(temporal, thread_id)
    await finder.check_is_root()
    return await finder.find()


async def delete_thread(
    temporal: Client, thread_id: str, *, profiles: bool | ProfileStore = False, spared: str | None = None
) -> DeleteReceipt:
    """Delete a thread and everything that belongs to it. Calling it again has no effect, or deletes what was left.

    Args:
        profiles: also delete the profiles of the thread and of its descendants, in this store, or in the one that
            `WAKEFUL_PROFILES` names.
        spared: an archive that stays: the one whose activity calls this.

    Raises:
        CallerError: the thread is a sub-agent of a thread that exists.
        ConfigurationError: `WAKEFUL_PROFILES` names an unknown store.
    """
    if profiles is True:
        from wakeful.profile_stores.worker_profiles import profile_store  # here: it imports the whole registry

        async with aclosing(profile_store(os.environ)) as store:
            return await _Deletion(temporal, thread_id, spared).perform(store)
    return await _Deletion(temporal, thread_id, spared).perform(profiles or None)


async def select_threads(temporal: Client, query: str) -> list[str]:
    """The threads that a Temporal list filter finds, oldest first, without sub-agents: they go with their parents.

    Raises:
        CallerError: the filter is not valid.
    """
    try:
        found = [each async for each in temporal.list_workflows(f"WorkflowType = '{names.WORKFLOW}' AND ({query})")]
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise CallerError(f"the query {query!r} is not a list filter: {error.message}") from error
        raise error_of(error, query) from error
    parents = {each.id: parent_of(each) for each in sorted(found, key=lambda execution: execution.start_time)}
    return [id for id, parent in parents.items() if parent is None or not await _is_subagent(temporal, id)]


async def _is_subagent(temporal: Client, thread_id: str) -> bool:
    """Whether it is a sub-agent of a thread that exists."""
    try:
        await BelongingsFinder(temporal, thread_id).check_is_root()
    except CallerError:
        return True
    return False


class _Deletion:
    def __init__(self, temporal: Client, thread_id: str, spared: str | None) -> None:
        self._temporal = temporal
        self._thread_id = thread_id
        self._finder = BelongingsFinder(temporal, thread_id, spared)
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
        self._requested = dict[ExecutionKey, float]()
        """When the server was asked to delete each execution."""
        self._gone = set[ExecutionKey]()
        self._failed = dict[str, str]()
        """What cannot be deleted, by workflow id, and why."""
        self._payloads = 0

    async def perform(self, profiles: ProfileStore | None) -> DeleteReceipt:
        await self._finder.check_is_root()
        found = await self._delete_executions()
        # Again: an activity that was running may have stored its result meanwhile.
        await self._delete_payloads((*found.threads, *found.archives, *found.pushes))
        remaining = [NotDeleted(id=id, reason=reason) for id, reason in self._failed.items()]
        deleted = 0
        if profiles is not None:
            for owner in map(thread_owner, found.threads):
                try:
                    deleted += await profiles.clear(owner)
                except WakefulError as error:
                    remaining.append(NotDeleted(id=owner, reason=f"its profiles: {error}"))
        if (foreign := foreign_store(self._temporal.data_converter)) is not None:
            reason = f"the payload store {foreign!r} is not Wakeful's: delete the payloads of these workflows in it"
            remaining.append(NotDeleted(id=self._thread_id, reason=reason))
        gone = {key.workflow_id for key in self._gone}
        return DeleteReceipt(
            thread_id=self._thread_id,
            found=bool(self._gone or self._failed or self._payloads or deleted),
            threads=tuple(id for id in found.threads if id in gone),
            archives=tuple(id for id in found.archives if id in gone),
            executions=len(self._gone),
            payloads=self._payloads,
            profiles=deleted,
            remaining=tuple(remaining),
        )

    async def _delete_executions(self) -> Belongings:
        """Terminate and delete, until all that was found is gone, and the server lists nothing any more."""
        deadline = monotonic() + PATIENCE.total_seconds()
        seen = set[ExecutionKey]()
        pause, longest = PAUSES_SECONDS
        while True:
            found = await self._finder.find()
            listed = {key for key in found.executions if key.workflow_id not in self._failed}
            seen |= listed
            left = {key for key in seen - self._gone if key.workflow_id not in self._failed}
            if not left and not listed:
                return found
            if monotonic() > deadline:
                for key in sorted(left):
                    reason = f"execution {key.run_id!r} still exists: delete the thread again"
                    self._failed.setdefault(key.workflow_id, reason)
                return found
            gone = len(self._gone)
            await self._round(found, left)
            if len(self._gone) > gone:
                deadline = monotonic() + PATIENCE.total_seconds()
            await asyncio.sleep(pause)
            pause = min(longest, pause * 1.5)

    async def _round(self, found: Belongings, left: set[ExecutionKey]) -> None:
        # One after another: a parent that is open would see its children end.
        for key in found.open:
            if key in left:
                await self._attempt(key, self._terminate)
        await self._delete_payloads({key.workflow_id for key in left if key not in self._requested})
        for id in (*found.pushes, *found.archives, *reversed(found.threads)):
            await self._each(self._delete, (key for key in left if key.workflow_id == id))
        await self._each(self._look, left)

    async def _each(self, act: Callable[[ExecutionKey], Awaitable[None]], keys: Iterable[ExecutionKey]) -> None:
        await asyncio.gather(*(self._attempt(key, act) for key in keys if key.workflow_id not in self._failed))

    async def _attempt(self, key: ExecutionKey, act: Callable[[ExecutionKey], Awaitable[None]]) -> None:
        async with self._slots:
            try:
                await act(key)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND or error.status in RETRYABLE:
                    return  # the next round finds out
                self._failed[key.workflow_id] = str(error_of(error, key.workflow_id))

    async def _terminate(self, key: ExecutionKey) -> None:
        # Whichever execution is the newest: the thread may have continued as new.
        await self._temporal.get_workflow_handle(key.workflow_id).terminate(reason=TERMINATED)

    async def _delete(self, key: ExecutionKey) -> None:
        if monotonic() - self._requested.get(key, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return
        await delete_execution(self._temporal, key.workflow_id, key.run_id)
        self._requested[key] = monotonic()

    async def _look(self, key: ExecutionKey) -> None:
        if await self._finder.describe(key.workflow_id, key.run_id) is None:
            self._gone.add(key)

    async def _delete_payloads(self, workflow_ids: Iterable[str]) -> None:
        """Before the executions: without them, the next call would not find the payloads of descendants."""
        for id in workflow_ids:
            try:
                self._payloads += await delete_stored(self._temporal.data_converter, self._temporal.namespace, id)
            except OSError as error:
                self._failed[id] = f"its payloads in the payload store: {error}"
