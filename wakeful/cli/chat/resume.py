"""Where a conversation is taken up again: what was said last, and whether a turn is under way."""

from dataclasses import dataclass

from temporalio.client import WorkflowExecutionStatus

from wakeful.cli.terminal.colours import CYAN, Colours
from wakeful.cli.terminal.live_view import SIGN
from wakeful.cli.terminal.render import called, readable
from wakeful.client.client import Client
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.client.wake import describe
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message, Role, Visibility
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import WaitingFor

SHOWN_MESSAGES = 6


@dataclass(frozen=True)
class Place:
    """How far a thread has come."""

    is_there: bool = False
    is_open: bool = False
    after: int = 0
    """The number of the event to go on from: the last one, or the last before the run that is under way."""
    busy: bool = False
    messages: tuple[Message, ...] = ()
    """The last ones, without what the run under way has said: that is watched."""


async def place_of(client: Client, thread_id: str) -> Place:
    """Where a thread stands; one that nobody has heard of is new.

    Raises:
        NoAnswer: no worker answers for it.
    """
    described = await describe(client.temporal, thread_id)
    if described is None:
        return Place()
    view = await client.status(thread_id, within=QUERY_TIMEOUT)
    told = [message for message in await client.transcript(thread_id) if message.visibility is Visibility.ALL]
    is_open = described.status is WorkflowExecutionStatus.RUNNING
    busy = is_open and view.status is not RunStatus.DONE and view.waiting_for is not WaitingFor.TASKS
    records = await newest_events(client, thread_id)
    run_id = view.identity.run_id
    of_run = [record.seq for record in records if record.run_id == run_id] if busy else []
    said_before = told
    if busy:
        said_before = [message for message in told if not _is_of(message, run_id)]
    last = records[-1].seq if records else 0
    return Place(
        is_there=True,
        is_open=is_open,
        after=of_run[0] - 1 if of_run else last,
        busy=busy,
        messages=tuple(said_before[-SHOWN_MESSAGES:]),
    )


async def newest_events(client: Client, thread_id: str) -> list[EventRecord]:
    """The events that the thread's newest execution has."""
    page = await client.events(thread_id)
    if page.earlier is not None:
        page = await client.events(thread_id, after=page.earlier.through)
    records = list(page.events)
    while page.more:
        page = await client.events(thread_id, after=page.last)
        records += page.events
    return records


def _is_of(message: Message, run_id: str) -> bool:
    return message.role is not Role.USER and message.metadata is not None and message.metadata.run_id == run_id


def said_lines(message: Message, colours: Colours) -> list[str]:
    """A message as it stood on the screen."""
    match message.role:
        case Role.USER:
            first, *more = readable(message.text).splitlines() or [""]
            return ["", colours.painted(SIGN, CYAN) + first, *(f"  {line}" for line in more), ""]
        case Role.ASSISTANT:
            calls = [colours.dim(f"→ {called(call.name, call.arguments)}") for call in message.tool_calls]
            return [*readable(message.text).splitlines(), *calls]
        case _:
            return []
