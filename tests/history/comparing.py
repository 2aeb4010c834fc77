"""Ask a worker and a reader the same questions about every execution of a thread."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus, WorkflowQueryFailedError

from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.history.decoder import ExecutionRef, walk_chain
from wakeful.history.reader import HistoryReader
from wakeful.history.timeline import ChildInitiated, Timeline, read_timeline

PAGED = (names.QUERY_TRANSCRIPT, names.QUERY_EVENTS)
PLAIN = (names.QUERY_STATUS, names.QUERY_STATE, names.QUERY_CARRYOVER)
PAGE = 7
"""Small, so that there are several."""
FORK_POINTS = 12
TIMES = frozenset({"at", "since", "updated_at", "duration_ms"})
"""In a replay, a local tool's result can be some milliseconds earlier than in the memory of the worker that ran it."""

Answer = dict[str, Any] | str


@dataclass(frozen=True)
class Compared:
    """An answer of a worker that a reader does not give."""

    execution: ExecutionRef
    query: str
    argument: object
    worker: Answer
    reader: Answer

    def __str__(self) -> str:
        where = f"{self.execution.thread_id} {self.execution.run_id}, {self.query} {self.argument}"
        return "\n  ".join([where, *differing(self.worker, self.reader)])


def differing(worker: object, reader: object, path: str = "") -> Iterator[str]:
    """Where two answers differ, and how."""
    if isinstance(worker, dict) and isinstance(reader, dict):
        for key in sorted(worker.keys() | reader.keys()):
            yield from differing(worker.get(key), reader.get(key), f"{path}.{key}")
    elif isinstance(worker, list) and isinstance(reader, list) and len(worker) == len(reader):
        for number, pair in enumerate(zip(worker, reader, strict=True)):
            yield from differing(*pair, f"{path}[{number}]")
    elif worker != reader:
        yield f"{path}: a worker answers {worker!r}, and history {reader!r}"


def without_times(value: Any) -> Any:
    """The same answer, without what depends on when something was handled."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


class Comparison:
    """Compares the answers for whole trees of threads.

    Args:
        cold: the worker has no thread in its memory, so times have to be equal, too.
    """

    def __init__(self, temporal: TemporalClient, reader: HistoryReader, *, cold: bool) -> None:
        self._temporal = temporal
        self._reader = reader
        self._cold = cold
        self.executions = 0
        self.answers = 0
        self.differences: list[Compared] = []

    async def tree(self, thread_id: str) -> None:
        """A thread, and the threads and background tools that descend from it, with all their executions."""
        newest = (await self._temporal.get_workflow_handle(thread_id).describe()).run_id
        children: set[str] = set()
        async for timeline in walk_chain(self._timeline, ExecutionRef(thread_id, newest)):
            await self._execution(timeline.execution)
            children |= {child.thread_id for child in timeline.of(ChildInitiated)}
        for child in sorted(children):
            await self.tree(child)

    async def _timeline(self, execution: ExecutionRef) -> Timeline:
        return await read_timeline(self._temporal, execution)

    async def _execution(self, execution: ExecutionRef) -> None:
        handle = self._temporal.get_workflow_handle(execution.thread_id, run_id=execution.run_id)
        is_open = (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        if self._cold and not is_open:
            return  # no worker has a closed execution in its memory: it was compared before
        self.executions += 1
        exactly = self._cold or not is_open
        for query in PLAIN:
            await self._compare(execution, query, None, exactly=exactly)
        for query in PAGED:
            await self._pages(execution, query, exactly=exactly)
        for messages in range(FORK_POINTS):
            await self._compare(execution, names.QUERY_FORK_POINT, {"messages": messages}, exactly=exactly)

    async def _pages(self, execution: ExecutionRef, query: str, *, exactly: bool) -> None:
        after: int | None = 0
        while after is not None:
            page = await self._compare(execution, query, {"after": after, "limit": PAGE}, exactly=exactly)
            if isinstance(page, str):
                return
            earlier = page.get("earlier", {}).get("through", 0)
            after = page.get("next") or (page.get("last") if page.get("more") else None)
            if earlier and earlier > (after or 0) and not page.get("restoring"):
                after = earlier

    async def _compare(self, execution: ExecutionRef, query: str, argument: object, *, exactly: bool) -> Answer:
        self.answers += 1
        worker = await self._ask(execution, query, argument)
        try:
            read: Answer = await self._reader.query(execution.thread_id, query, dict, argument, run_id=execution.run_id)
        except WakefulError as error:
            read = str(error).rpartition("failed: ")[2]
        if worker != read if exactly else without_times(worker) != without_times(read):
            self.differences.append(Compared(execution, query, argument, worker, read))
        return worker

    async def _ask(self, execution: ExecutionRef, query: str, argument: object) -> Answer:
        handle = self._temporal.get_workflow_handle(execution.thread_id, run_id=execution.run_id)
        try:
            answer: Answer = await handle.query(query, args=[] if argument is None else [argument], result_type=dict)
        except WorkflowQueryFailedError as error:
            return str(error)
        return answer
