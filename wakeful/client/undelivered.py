"""Messages between agents that could not be delivered, read from the threads that sent them."""

from collections.abc import Callable

from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.queries import OPEN_RUNS, StatusQueries, Unanswered
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.errors import WakefulError
from wakeful.contract.mail import UndeliveredMessage


class ThreadUndelivered(Wire):
    """The dead letters of a thread."""

    thread_id: str
    undelivered: Few[tuple[UndeliveredMessage, ...]] = ()
    unknown: Maybe[str] = None
    """Why nothing is known: nobody answered for the thread."""


async def read_undelivered(temporal: Client, *, asking: Callable[[int], None]) -> list[ThreadUndelivered]:
    """What every open thread could not deliver, and the threads that could not be asked.

    Args:
        asking: is told how many threads are asked, before they are.
    """
    try:
        executions = [execution async for execution in temporal.list_workflows(OPEN_RUNS)]
    except RPCError as error:
        raise WakefulError(f"Temporal does not list the open threads: {error.message}") from error
    asking(len(executions))
    answers = await StatusQueries(temporal).statuses(executions)
    found: list[ThreadUndelivered] = []
    for execution, answer in zip(executions, answers, strict=True):
        if isinstance(answer, Unanswered):
            found.append(ThreadUndelivered(thread_id=execution.id, unknown=answer.reason))
        elif answer is not None and answer.undelivered:
            found.append(ThreadUndelivered(thread_id=execution.id, undelivered=answer.undelivered))
    return sorted(found, key=lambda each: (each.unknown is not None, each.thread_id))
