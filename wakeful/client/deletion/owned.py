"""Find the threads that belong to a tenant, or to which a user has written, to delete them.

Search attributes say it of most. The others are read: threads with more users than lists show, those of a release that
showed none, and all threads of a namespace without our attributes. Every execution of a thread counts that the server
still has, because it has messages, too: one that was reset, or that was started over.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.deletion.find import MAX_CONCURRENT_CALLS, BelongingsFinder, parent_of
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.watching.reading import read_events
from wakeful.contract import names
from wakeful.contract.base import Few, Wire
from wakeful.contract.carryover import Carryover
from wakeful.contract.errors import CallerError, NotStarted, ThreadNotFound, WakefulError
from wakeful.contract.events import RunStart
from wakeful.contract.requests import parse_request, parse_submission
from wakeful.contract.users import OTHERS, parse_shown
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments
from wakeful.history.list_queries import any_of, quoted
from wakeful.history.moments import SignalReceived, Started
from wakeful.rpc_errors import error_of

Progress = Callable[[int], None]
"""Called with the number of executions that were read."""

_EXECUTIONS = f"WorkflowType = '{names.WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew'"
_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
_TENANT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_TENANT)
_USER = SearchAttributeKey.for_keyword(names.ATTRIBUTE_USER)
_USERS = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_USERS)


class OwnedThreads(Wire):
    """The threads of a tenant or a user, without sub-agents: they go with their parents."""

    own: Few[tuple[str, ...]] = ()
    """Those to which no other user has written, the oldest first."""
    shared: Few[dict[str, tuple[str, ...]]] = {}
    """Those to which other users have written, too, and these users."""
    unknown: Few[dict[str, str]] = {}
    """Those of which it is not known whose they are, and why."""


@dataclass(frozen=True)
class _Owners:
    """Whose an execution of a thread is."""

    tenant: str | None = None
    users: frozenset[str] = frozenset()


@dataclass(frozen=True)
class OwnedFilter:
    """Whose threads to find: a tenant's, a user's, or those of a user within a tenant."""

    tenant: str | None = None
    user: str | None = None
    query: str | None = None

    @property
    def candidates(self) -> str:
        """The list filter for what may belong to them, in a namespace that has our search attributes."""
        conditions = [self.everything]
        unshown = f"{names.ATTRIBUTE_STATUS} IS NULL"
        if self.tenant is not None:
            conditions.append(f"({names.ATTRIBUTE_TENANT} = {quoted(self.tenant)} OR {unshown})")
        if self.user is not None:
            user, users = quoted(self.user), names.ATTRIBUTE_USERS
            wrote = f"{users} = {user} OR {names.ATTRIBUTE_USER} = {user}"
            conditions.append(f"({wrote} OR {users} = {quoted(OTHERS)} OR {users} IS NULL)")
        return " AND ".join(conditions)

    @property
    def everything(self) -> str:
        """The list filter for all threads that the query finds."""
        return _EXECUTIONS if self.query is None else f"{_EXECUTIONS} AND ({self.query})"

    def includes(self, owners: _Owners) -> bool:
        return self.tenant in (None, owners.tenant) and (self.user is None or self.user in owners.users)


async def find_owned(
    reader: ThreadReader, wanted: OwnedFilter, *, on_progress: Progress = lambda _: None
) -> OwnedThreads:
    """Find the threads; nothing is changed.

    Raises:
        CallerError: neither a tenant nor a user is given, or the query is not a list filter.
        WakefulError: the server refused a request, or is unreachable.
    """
    if wanted.tenant is None and wanted.user is None:
        raise CallerError("say whose threads: a tenant's, a user's, or both")
    try:
        return await _Finder(reader, wanted, on_progress).find()
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise CallerError(f"the query {wanted.query!r} is not a list filter: {error.message}") from error
        raise error_of(error, wanted.everything) from error


class _Finder:
    def __init__(self, reader: ThreadReader, wanted: OwnedFilter, on_progress: Progress) -> None:
        self._reader = reader
        self._temporal = reader.temporal
        self._wanted = wanted
        self._on_progress = on_progress
        self._is_shown = True
        """Whether the namespace has the search attributes that say whose a thread is."""
        self._known = dict[str, _Owners | str]()
        """Of each execution, by its run id: whose it is, or why that is not known."""
        self._parents = dict[str, str | None]()
        """Of each thread, the one whose sub-agent it is, if that exists."""
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
        self._read = 0

    async def find(self) -> OwnedThreads:
        found = await self._candidates()
        await self._learn(found)
        self._note_parents(found)
        threads = defaultdict[str, list[WorkflowExecution]](list)
        for each in found:
            owners = self._known[each.run_id]
            if isinstance(owners, str) or self._wanted.includes(owners):
                threads[await self._root(each.id)].append(each)
        own, shared, unknown = list[str](), dict[str, tuple[str, ...]](), dict[str, str]()
        for id, executions in threads.items():
            is_theirs = any(isinstance(self._known[each.run_id], _Owners) for each in executions)
            tree = await self._tree(id) if is_theirs else executions
            if (problem := self._problem(tree)) is not None:
                unknown[id] = problem
            elif others := self._others(tree):
                shared[id] = others
            else:
                own.append(id)
        return OwnedThreads(own=tuple(own), shared=shared, unknown=unknown)

    async def _candidates(self) -> list[WorkflowExecution]:
        """What may be theirs, the oldest first."""
        try:
            found = await self._listed(self._wanted.candidates)
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            self._is_shown = False  # the namespace lacks an attribute; or the query is wrong, which the next list says
            found = await self._listed(self._wanted.everything)
        return sorted(found, key=lambda execution: execution.start_time)

    async def _listed(self, condition: str) -> list[WorkflowExecution]:
        return [each async for each in self._temporal.list_workflows(condition)]

    def _note_parents(self, found: Sequence[WorkflowExecution]) -> None:
        """Note which of these are sub-agents of which others; only of a parent that is not found, more must be read."""
        ids = {each.id for each in found}
        parents = {each.id: parent for each in found if (parent := parent_of(each)) is not None}
        self._parents |= {id: parents.get(id) for id in ids if id not in parents or parents[id] in ids}

    async def _root(self, thread_id: str) -> str:
        """The thread with which a sub-agent is deleted; of another thread, itself."""
        if thread_id not in self._parents:
            self._parents[thread_id] = await BelongingsFinder(self._temporal, thread_id).parent()
        parent = self._parents[thread_id]
        return thread_id if parent is None else await self._root(parent)

    async def _tree(self, thread_id: str) -> list[WorkflowExecution]:
        """All executions that are deleted with a thread, of it and its sub-agents."""
        threads = (await BelongingsFinder(self._temporal, thread_id).find()).threads
        tree = [
            each
            for condition in any_of("WorkflowId", threads)
            for each in await self._listed(f"{_EXECUTIONS} AND {condition}")
        ]
        await self._learn(tree)
        return tree

    def _problem(self, tree: Sequence[WorkflowExecution]) -> str | None:
        """Why it is not known whose a thread is."""
        for each in tree:
            known = self._known[each.run_id]
            if isinstance(known, str):
                return known
            if self._wanted.tenant is not None and known.tenant not in (None, self._wanted.tenant):
                return f"an execution of {each.id!r} is of tenant {known.tenant!r}"
        return None

    def _others(self, tree: Sequence[WorkflowExecution]) -> tuple[str, ...]:
        """The other users who have written to a thread or its sub-agents."""
        if self._wanted.user is None:
            return ()
        owners = (self._known[each.run_id] for each in tree)
        users = frozenset[str]().union(*(known.users for known in owners if isinstance(known, _Owners)))
        return tuple(sorted(users - {self._wanted.user}))

    async def _learn(self, executions: Sequence[WorkflowExecution]) -> None:
        """Find out whose these executions are; those are read whose search attributes do not say it."""
        unread = list[WorkflowExecution]()
        for each in executions:
            if each.run_id not in self._known and (shown := self._shown(each)) is not None:
                self._known[each.run_id] = shown
            elif each.run_id not in self._known:
                unread.append(each)
        await asyncio.gather(*map(self._learn_by_reading, unread))

    def _shown(self, execution: WorkflowExecution) -> _Owners | None:
        """Whose the search attributes say it is; None if they do not have all of it."""
        attributes = execution.typed_search_attributes
        if not self._is_shown or attributes.get(_STATUS) is None:
            return None
        users, newest = parse_shown(attributes.get(_USERS) or (OTHERS,)), attributes.get(_USER)
        if users.more and self._wanted.user is not None:
            return None
        return _owners(attributes.get(_TENANT), (*users.names, newest))

    async def _learn_by_reading(self, execution: WorkflowExecution) -> None:
        async with self._slots:
            try:
                owners: _Owners | str = await self._read_owners(execution)
            except ThreadNotFound:  # it was deleted meanwhile
                owners = _Owners()
            except WakefulError as error:
                owners = str(error)
            except Exception as error:  # whatever is wrong with one thread, such as its codec, the others are found
                owners = f"it cannot be read: {type(error).__name__}: {error}"
        self._known[execution.run_id] = owners
        self._read += 1
        self._on_progress(self._read)

    async def _read_owners(self, execution: WorkflowExecution) -> _Owners:
        is_open = execution.status is WorkflowExecutionStatus.RUNNING
        run_id = None if is_open else execution.run_id  # an open thread may continue as new meanwhile
        name, within = names.QUERY_CARRYOVER, QUERY_TIMEOUT
        try:
            # Unlike a status, it says whether a worker of an older release has answered, which does not know users.
            kept = await self._reader.query(execution.id, name, Carryover, run_id=run_id, within=within)
        except NotStarted:
            return await self._read_input(ExecutionRef(execution.id, execution.run_id))
        users = [kept.identity.user if kept.identity else None, *(unread.user for unread in kept.unread)]
        if kept.users is not None:
            users += kept.users.names
        if self._wanted.user is not None and (kept.users is None or kept.users.more):
            users += await self._users_of_runs(execution.id, run_id)
        return _owners(kept.tenant, users)

    async def _users_of_runs(self, thread_id: str, run_id: str | None) -> list[str | None]:
        users, after, has_more = list[str | None](), 0, True
        while has_more:
            page = await read_events(self._reader, thread_id, after=after, run_id=run_id)
            starts = (record.event for record in page.events if isinstance(record.event, RunStart))
            users += [start.identity.user for start in starts if start.identity is not None]
            after, has_more = page.last, page.more
        return users

    async def _read_input(self, execution: ExecutionRef) -> _Owners:
        """Whose an execution is that has no thread: no worker has started it, or its request was refused."""
        payloads, tenant, users = Payloads(self._temporal.data_converter), None, list[str | None]()
        async for moment in read_moments(self._temporal, execution):
            try:
                match moment:
                    case Started():
                        request = parse_request(await payloads.json(moment.input))
                        tenant, users = request.tenant, [request.user]
                    case SignalReceived(signal=names.SIGNAL_SUBMIT):
                        users.append((await payloads.signal(moment.input, parse_submission)).user)
                    case _:
                        pass
            except CallerError as error:  # it is malformed, unless only this client cannot decode it
                payloads.check_codec(error, f"thread {execution.thread_id!r}")
        return _owners(tenant, users)


def _owners(tenant: str | None, users: Iterable[str | None]) -> _Owners:
    return _Owners(tenant, frozenset(user for user in users if user is not None))
