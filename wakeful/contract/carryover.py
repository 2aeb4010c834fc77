"""What a thread keeps besides its conversation: a later execution of the thread continues with it, and so does a fork.

Sizes are bytes of JSON. Temporal refuses query answers and activity results over two megabytes, so a carryover that
were larger could not be read, and the thread could not be woken.
"""

from typing import TypeVar

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire, json_bytes
from wakeful.contract.context import AgentContext, Compaction
from wakeful.contract.mail import UndeliveredMessage
from wakeful.contract.messages import Message
from wakeful.contract.outcomes import Outcome
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import Priority, RunIdentity, RunMode
from wakeful.contract.segments import SegmentRef
from wakeful.contract.settings import Caller, RunSettings
from wakeful.contract.tasks import MailStarter, Task, TaskStarter
from wakeful.contract.tools import ToolDescriptor
from wakeful.contract.users import Users

UNDELIVERED_BYTES = 300_000
"""Of all undelivered messages together."""

CARRYOVER_BYTES = 900_000
"""Of undelivered messages, mail and context. The largest message fits alone, even where a character has four bytes."""

FRONTEND_TOOLS_BYTES = 150_000
"""Of all frontend tools together."""

WITH_UNREAD_BYTES = 1_350_000
"""Of undelivered messages, mail and unread messages. All unread messages fit: a thread bounds what waits in it."""


class Counters(Wire):
    """The numbers that ids are made of. They never restart: every later execution of the thread continues them."""

    runs: int = 0
    steps: int = 0
    submissions: int = 0
    tasks: int = 0
    compactions: int = 0
    handoffs: int = 0
    hooks: int = 0
    events: int = 0
    archives: Few[int] = 0
    lineage: Few[str] = ""
    """Set by a Temporal reset, which counts again from the reset point: it tells the new ids from the undone ones."""


class UnreadMessage(RunSettings, Caller):
    """A message that a thread had accepted, but no run had read when it was closed."""

    message: Message
    group: Few[str] = ""
    """Messages of one group start one run together."""
    agent_id: Maybe[str] = None
    run_mode: Maybe[RunMode] = None
    """All but the message are those of the run that it begins."""


class AgentRules(Wire):
    """What an agent denies or asks about that has handed the thread off."""

    agent_id: str
    rules: tuple[Rule, ...]


class Carryover(Wire):
    """What a closed thread, or a step of an open one, passes on."""

    counters: Counters = Counters()
    agent_id: Maybe[str] = None
    """The agent that answers now, if the run was handed off."""
    tasks: Few[tuple[Task, ...]] = ()
    task_starters: Few[tuple[TaskStarter, ...]] = ()
    """For whom the runs acted that started the running ones."""
    undelivered: Few[tuple[UndeliveredMessage, ...]] = ()
    mail: Few[tuple[Message, ...]] = ()
    """Mail that arrived too late for the last run to read it."""
    mail_starters: Few[tuple[MailStarter, ...]] = ()
    """For whom the runs acted that started the tasks whose mail it is: so does the run that the mail begins."""
    late_mail: Few[bool] = False
    """Some of it came after the close: the woken thread starts a run with it."""
    unread: Few[tuple[UnreadMessage, ...]] = ()
    """Messages that no run has read: the woken thread starts runs with them."""
    permissions: Few[tuple[Rule, ...]] = ()
    authority: Few[tuple[Rule, ...]] = ()
    """Of a sub-agent, and its forks: what its ancestors deny or ask about."""
    handed_over: Few[tuple[AgentRules, ...]] = ()
    """Of agents that handed the thread off."""
    state: Few[dict[str, JsonValue]] = {}
    """Agent state with thread scope."""
    state_revision: Few[int] = 0
    """The revision of the agent state, which the next execution continues."""
    run_state: Few[dict[str, JsonValue]] = {}
    """Only for a fork, which continues a run: agent state with run scope."""
    run_permissions: Few[tuple[Rule, ...]] = ()
    """Only for a fork: the permissions of the run."""
    run_requested: Few[tuple[Rule, ...]] = ()
    """Only for a fork: those of them that the run's request had set."""
    run_user: Maybe[str] = None
    run_metadata: Few[dict[str, JsonValue]] = {}
    """Only for a fork: the user and the metadata of the run."""
    tenant: Maybe[str] = None
    """The tenant that the thread belongs to, and so do its forks."""
    outcomes: Few[tuple[Outcome, ...]] = ()
    """What became of the newest decisions and messages; a fork has its own."""
    identity: Maybe[RunIdentity] = None
    """The last run's: a sub-agent that is woken still knows its parent."""
    compaction: Maybe[Compaction] = None
    """The summary of the oldest messages."""
    frontend_tools: Few[tuple[ToolDescriptor, ...]] = ()
    context: Few[tuple[AgentContext, ...]] = ()
    """Context messages, those of the newest agent last."""
    expire_after: Maybe[float] = None
    """Of the request that started the thread."""
    priority: Maybe[Priority] = None
    """Of the same request."""
    segments: Few[tuple[SegmentRef, ...]] = ()
    """Where the older part of the conversation and of the events is archived."""
    agents: Few[int] = 0
    """How many agents the tree of the last run has started: a run that no person asks for continues the count."""
    revision: Few[int] = 0
    """Of the loop of the release that has restored the thread: what happens before its first run is pinned to it."""
    users: Maybe[Users] = None
    """Who has written to the thread; absent if a release wrote this that did not record it."""

    def for_fork(self) -> "Carryover":
        """What a fork inherits: tasks, mail, parent and outcomes are the thread's own."""
        return Carryover(
            counters=self.counters,
            agent_id=self.agent_id or (self.identity.agent_id if self.identity else None),
            permissions=self.permissions,
            authority=self.authority,
            handed_over=self.handed_over,
            state=self.state,
            state_revision=self.state_revision,
            compaction=self.compaction,
            frontend_tools=self.frontend_tools,
            context=self.context,
            tenant=self.tenant,
            users=self.users,
        )

    def fitting(self) -> "Carryover":
        """As much as fits beside the unread messages: the newest undelivered ones, mail, starters, context."""
        room = min(CARRYOVER_BYTES, WITH_UNREAD_BYTES - sum(map(json_bytes, self.unread)))
        undelivered = newest_undelivered(self.undelivered, within=room)
        mail, room = _fitting(self.mail, room - sum(map(json_bytes, undelivered)))
        starters, room = _starters_in(self.task_starters, room)
        mail_starters, room = _starters_in(self.mail_starters, room)
        context, _ = _fitting(self.context[::-1], room)
        tools, _ = _fitting(self.frontend_tools, FRONTEND_TOOLS_BYTES)
        kept = {"undelivered": undelivered, "mail": mail, "context": context[::-1], "frontend_tools": tools}
        return self.model_copy(update={**kept, "task_starters": starters, "mail_starters": mail_starters})


W = TypeVar("W", bound=Wire)
S = TypeVar("S", bound=TaskStarter)


def _starters_in(starters: tuple[S, ...], room: int) -> tuple[tuple[S, ...], int]:
    """The starters; those that do not fit begin runs that may call no tool, if they had rules."""
    fitting, left = _fitting(starters, room)
    bare = (each.without_tools for each in starters if each not in fitting and each.permissions)
    return (*bare, *fitting), left


def _fitting(values: tuple[W, ...], room: int) -> tuple[tuple[W, ...], int]:
    """The values that fit, in their order, and the room that is left; one that is too large is skipped."""
    fitting: list[W] = []
    for value in values:
        if (size := json_bytes(value)) <= room:
            fitting.append(value)
            room -= size
    return tuple(fitting), room


def newest_undelivered(
    messages: tuple[UndeliveredMessage, ...], *, within: int = CARRYOVER_BYTES
) -> tuple[UndeliveredMessage, ...]:
    """The newest that fit, in their order; the very newest may take more room than all of them are meant to."""
    size, start = 0, len(messages)
    for place in reversed(range(len(messages))):
        size += json_bytes(messages[place])
        if size > (within if start == len(messages) else min(within, UNDELIVERED_BYTES)):
            break
        start = place
    return messages[start:]
