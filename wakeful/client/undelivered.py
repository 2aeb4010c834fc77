"""Messages between agents that could not be delivered, read from the threads that sent them."""

from collections.abc import Callable

from temporalio.service import RPCError

from wakeful.client.queries import OPEN_RUNS
from wakeful.client.statuses import Statuses, Unanswered
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.errors import WakefulError
from wakeful.contract.mail import UndeliveredMessage


class ThreadUndelivered(Wire):
    """The undelivered messages of a thread."""

    thread_id: str
    undelivered: Few[tuple[UndeliveredMessage, ...]] = ()
    unknown: Maybe[str] = None
    """Why nothing is known: the thread cannot be read."""
    undecodable: Few[bool] = False
    """The reason is that this program does not have the thread's payload codec."""


async def read_undelivered(reader: ThreadReader, *, on_listed: Callable[[int], None]) -> list[ThreadUndelivered]:
    """The undelivered messages of every open thread, and the threads that cannot be read.

    Args:
        on_listed: called with the number of open threads, before they are read.
    """
    try:
        executions = [execution async for execution in reader.temporal.list_workflows(OPEN_RUNS)]
    except RPCError as error:
        raise WakefulError(f"Temporal does not list the open threads: {error.message}") from error
    on_listed(len(executions))
    answers = await Statuses(reader.temporal, reader=reader).of(executions)
    found: list[ThreadUndelivered] = []
    for execution, answer in zip(executions, answers, strict=True):
        if isinstance(answer, Unanswered):
            id, reason = execution.id, answer.reason
            found.append(ThreadUndelivered(thread_id=id, unknown=reason, undecodable=answer.undecodable))
        elif answer is not None and answer.undelivered:
            found.append(ThreadUndelivered(thread_id=execution.id, undelivered=answer.undelivered))
    return sorted(found, key=lambda each: (each.unknown is not None, each.thread_id))
