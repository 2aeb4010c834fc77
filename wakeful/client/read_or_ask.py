"""Read a thread from its history, and ask a worker only where that is not possible."""

from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from wakeful.client.queries import query
from wakeful.contract.base import Wire
from wakeful.contract.errors import DoesNotReplay, NoAnswer

if TYPE_CHECKING:  # it imports the workflows and Temporal's whole worker
    from wakeful.history.reader import HistoryReader

V = TypeVar("V", bound=Wire)


async def read_or_ask(
    reader: "HistoryReader",
    thread_id: str,
    name: str,
    kind: type[V],
    argument: object = None,
    *,
    run_id: str | None = None,
    within: timedelta | None = None,
) -> V:
    """What a thread answers to a query, by replay; a worker answers if its code is another than this program's.

    Args:
        within: how long a worker may take.

    Raises:
        NotStarted: no workflow task has been completed, of the execution or of any that it continues.
        ThreadNotFound: there is no such execution.
        NoAnswer: it does not replay here, and no worker answered.
    """
    try:
        return await reader.query(thread_id, name, kind, argument, run_id=run_id)
    except DoesNotReplay as error:
        try:
            return await query(reader.temporal, thread_id, name, kind, argument, run_id=run_id, within=within)
        except NoAnswer as silence:
            # With the cause of the silence: a watcher retries by it.
            raise NoAnswer(f"{error} No worker answered.") from silence.__cause__
