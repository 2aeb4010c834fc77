"""Where a conversation continues: the last messages, and whether a run is under way."""

from dataclasses import dataclass

from temporalio.client import WorkflowExecutionStatus

from wakeful.cli.session import read_status
from wakeful.cli.terminal.colours import CYAN, Colours
from wakeful.cli.terminal.guarded_stream import readable
from wakeful.cli.terminal.render import PROMPT
from wakeful.cli.terminal.text import short_call
from wakeful.client.client import Client
from wakeful.client.wake import describe
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message, Role, Visibility
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import WaitingFor

_WAITS_FOR_MESSAGES = (WaitingFor.TASKS, WaitingFor.PENDING_WORK)
"""What a run waits for that reads a message at once."""

SHOWN_MESSAGES = 6


@dataclass(frozen=True)
class ResumePoint:
    """Where a chat continues a thread."""

    exists: bool = False
    is_open: bool = False
    is_busy: bool = False
    """A run is under way."""
    after: int = 0
    """The last event, or the last one before the run that is under way."""
    messages: tuple[Message, ...] = ()
    """The last messages, without those of the run under way, which is watched."""


async def read_resume_point(client: Client, thread_id: str) -> ResumePoint:
    """Where a chat continues a thread, or that the thread is new.

    Raises:
        NoAnswer: no worker answers for the thread.
    """
    described = await describe(client.temporal, thread_id)
    if described is None:
        return ResumePoint()
    view = await read_status(client.reader, thread_id)
    messages = [message for message in await client.transcript(thread_id) if message.visibility is Visibility.ALL]
    is_open = described.status is WorkflowExecutionStatus.RUNNING
    is_busy = is_open and view.status is not RunStatus.DONE and view.waiting_for not in _WAITS_FOR_MESSAGES
    records = await newest_events(client, thread_id)
    run_id = view.identity.run_id
    of_run = [record.seq for record in records if record.run_id == run_id] if is_busy else []
    if is_busy:
        messages = [message for message in messages if not _is_of_run(message, run_id)]
    last = records[-1].seq if records else 0
    return ResumePoint(
        exists=True,
        is_open=is_open,
        is_busy=is_busy,
        after=of_run[0] - 1 if of_run else last,
        messages=tuple(messages[-SHOWN_MESSAGES:]),
    )


async def newest_events(client: Client, thread_id: str) -> list[EventRecord]:
    """The events of the thread's newest execution."""
    page = await client.events(thread_id)
    records = list(page.events)
    while page.more:
        page = await client.events(thread_id, after=page.last)
        records += page.events
    return records


def _is_of_run(message: Message, run_id: str) -> bool:
    return message.role is not Role.USER and message.metadata is not None and message.metadata.run_id == run_id


def past_message_lines(message: Message, colours: Colours) -> list[str]:
    """A message as it was on the screen before."""
    match message.role:
        case Role.USER:
            first, *more = readable(message.text).splitlines() or [""]
            return ["", colours.painted(PROMPT, CYAN) + first, *(f"  {line}" for line in more), ""]
        case Role.ASSISTANT:
            calls = [colours.dim(f"→ {short_call(call.name, call.arguments)}") for call in message.tool_calls]
            return [*readable(message.text).splitlines(), *calls]
        case _:
            return []
