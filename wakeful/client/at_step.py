"""A thread at the end of one of its past steps: its messages, its status and its state.

The step's end is an event of the thread, whose time says in which execution and in which workflow task it was.
"""

from dataclasses import dataclass

from temporalio.service import RPCError

from wakeful.client.branching.fork import end_of, missing_results
from wakeful.client.branching.steps import steps_of
from wakeful.client.thread_reader import ThreadReader
from wakeful.client.watching.reading import read_events, read_messages
from wakeful.contract import names
from wakeful.contract.errors import CallerError, InternalError, ThreadNotFound
from wakeful.contract.events import (
    EventRecord,
    StepEnd,
    StepStart,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
)
from wakeful.contract.messages import Message
from wakeful.contract.state import StateView
from wakeful.contract.views import StatusView
from wakeful.history.decoder import ExecutionRef, walk_chain
from wakeful.history.latest_execution import ExecutionStart, read_start
from wakeful.rpc_errors import error_of


@dataclass(frozen=True)
class ThreadAtStep:
    """A thread as the workflow task left it that ended a step."""

    thread_id: str
    step: int
    at: int
    """When that was, in milliseconds since 1970."""
    messages: tuple[Message, ...]
    """Up to the end of the step."""
    status: StatusView | None
    """The same task may have begun the next step. None if Temporal has deleted the execution that ran the step."""
    state: StateView | None
    """None likewise: the archives keep a conversation longer than its executions, and nothing keeps their states."""


async def read_at_step(reader: ThreadReader, thread_id: str, number: int) -> ThreadAtStep:
    """The thread at the end of this step, counted over all its runs.

    Raises:
        CallerError: there is no such step, or it has not ended.
        DoesNotReplay: its execution does not replay on the installed code.
    """
    messages = await read_messages(reader, thread_id)
    steps = steps_of(messages)
    if not 1 <= number <= len(steps):
        counted = f"{len(steps)} step{'' if len(steps) == 1 else 's'}"
        raise CallerError(f"thread {thread_id!r} has {counted}, so there is no step {number}")
    step = steps[number - 1]
    if missing := missing_results(messages, step):
        raise CallerError(f"step {number} of thread {thread_id!r} has not ended: {missing} has not returned")
    owner = await _owner(reader, thread_id, number)
    end = await _find_end(reader, owner, messages[step.start])
    through = tuple(messages[: end_of(messages, step)])
    execution = await _find_execution(reader, owner, end, number)
    if execution is None:
        return ThreadAtStep(thread_id, number, end.at, through, None, None)
    from wakeful.history.past import read_past  # it imports the workflows

    past = await read_past(reader.history, execution, seq=end.seq, at=end.at)
    return ThreadAtStep(thread_id, number, end.at, through, past.status, past.state)


async def _owner(reader: ThreadReader, thread_id: str, number: int) -> str:
    """The thread that ran the step: a fork has inherited those before it from its origin."""
    while True:
        origin = (await reader.query(thread_id, names.QUERY_STATUS, StatusView)).identity.forked_from
        if origin is None or number > origin.step:
            return thread_id
        thread_id = origin.thread_id


async def _find_end(reader: ThreadReader, thread_id: str, answer: Message) -> EventRecord:
    """The event that ended the step with this answer: its end, or a later result of a call that was suspended."""
    missing = {call.id for call in answer.tool_calls}
    after, has_started, has_ended = 0, False, False
    while True:
        page = await read_events(reader, thread_id, after=after, run_id=None)
        for record in page.events:
            match record.event:
                case StepStart() if has_ended:
                    return record
                case StepStart(message_id=id):
                    has_started |= id == answer.id
                case StepEnd():
                    has_ended |= has_started
                case ToolCallDone(id=id, outcome=outcome) if outcome is not ToolCallOutcome.SUSPENDED:
                    missing.discard(id)
                case ToolCallResumed(target_id=id) | ToolCallCancel(id=id):
                    missing.discard(id)
                case _:
                    continue
            if has_ended and not missing:
                return record
        if not page.more:
            raise CallerError(f"thread {thread_id!r} has no event of the step any more: it was rewound or rolled back")
        after = page.last


async def _find_execution(reader: ThreadReader, thread_id: str, end: EventRecord, number: int) -> ExecutionRef | None:
    """The execution that ran the step; None if Temporal has deleted it."""

    async def read(execution: ExecutionRef) -> ExecutionStart:
        return await read_start(reader.temporal, execution)

    try:
        newest = (await reader.temporal.get_workflow_handle(thread_id).describe()).run_id
        async for start in walk_chain(read, ExecutionRef(thread_id, newest)):
            if start.at <= end.at:
                return ExecutionRef(thread_id, start.run_id)
    except RPCError as error:
        raise error_of(error, thread_id) from error
    except ThreadNotFound:
        return None
    raise InternalError(f"step {number} of thread {thread_id!r} ended before the thread started")
