"""Every id and transcript source that Wakeful writes to history: made here, parsed here, and nowhere else.

An id in history is permanent and never reused: its numbers come from `Counters`, which a thread keeps through every
later run, execution, wake and fork. A Temporal reset counts again from the reset point, so call ids after it also have
a lineage. `tests/contract/test_ids.py` pins the spelling of each.

- A **work id** names a command until it ends: the id of an activity, or of the child that does the work.
- A **source** says where in history a transcript entry is recorded, so that an inference input can refer to it.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import quote


@dataclass(frozen=True)
class Resolve:
    """Look up the agent of the thread's n-th run."""

    run: int


@dataclass(frozen=True)
class ResolveHandoff:
    """Look up the agent that takes a run over."""

    number: int


@dataclass(frozen=True)
class Infer:
    """Call the model for the thread's n-th step."""

    step: int


@dataclass(frozen=True)
class CancelRemote:
    """Cancel the remote task of the thread's n-th step at its service."""

    step: int


@dataclass(frozen=True)
class Compact:
    """Summarise the oldest messages."""

    number: int


@dataclass(frozen=True)
class Hooks:
    """Run lifecycle hooks."""

    number: int


@dataclass(frozen=True)
class CallTool:
    """Execute a tool call; every decision that resumes the call makes one more execution."""

    call_id: str
    execution: int = 1


@dataclass(frozen=True)
class Delegate:
    """Run the sub-agent that a tool call waits for."""

    call_id: str
    execution: int = 1


@dataclass(frozen=True)
class Task:
    """Run a background task."""

    number: int


@dataclass(frozen=True)
class CancelTask:
    """The tool call that cancels a task, or its own run."""

    call_id: str


@dataclass(frozen=True)
class SendMessage:
    """The tool call that sends a message to another agent."""

    call_id: str


@dataclass(frozen=True)
class ResendMessage:
    """Send an undelivered message again."""

    message_id: str


@dataclass(frozen=True)
class ReturnMessage:
    """Return a message that arrived after the thread had ended."""

    message_id: str


@dataclass(frozen=True)
class RequestBudget:
    """Ask the parent for more of one budget, once the limit it granted is spent."""

    field: str
    limit: float


@dataclass(frozen=True)
class GrantBudget:
    """Answer a sub-agent that asked for more budget."""

    child_work_id: str
    answer: str


@dataclass(frozen=True)
class NotifyParent:
    """Signal the parent how this sub-agent ended."""


@dataclass(frozen=True)
class Restore:
    """Read the conversation that a woken or forked thread continues."""


@dataclass(frozen=True)
class DescribeWorker:
    """Ask the worker which search attributes the namespace has."""


@dataclass(frozen=True)
class FindStopping:
    """Look for a thread above that stops its descendants."""


@dataclass(frozen=True)
class Archive:
    """Archive what the thread's execution does not pass on."""

    number: int


Work = (
    Resolve
    | ResolveHandoff
    | Infer
    | CancelRemote
    | Compact
    | Hooks
    | CallTool
    | Delegate
    | Task
    | CancelTask
    | SendMessage
    | ResendMessage
    | ReturnMessage
    | RequestBudget
    | GrantBudget
    | NotifyParent
    | Restore
    | DescribeWorker
    | FindStopping
    | Archive
)


def work_id(work: Work) -> str:
    """How history spells the id of a command."""
    match work:
        case Resolve(run=number):
            return f"resolve-{number}"
        case ResolveHandoff(number=number):
            return f"handoff-{number}"
        case Infer(step=number):
            return f"infer-{number}"
        case CancelRemote(step=number):
            return f"cancel_remote-{number}"
        case Compact(number=number):
            return f"compact-{number}"
        case Hooks(number=number):
            return f"hooks-{number}"
        case CallTool(call_id=call, execution=execution):
            return f"tool{_nth(execution)}-{call}"
        case Delegate(call_id=call, execution=execution):
            return f"delegate{_nth(execution)}-{call}"
        case Task(number=number):
            return f"bg_{number}"
        case CancelTask(call_id=call):
            return f"cancel-{call}"
        case SendMessage(call_id=call):
            return f"send-{call}"
        case ResendMessage(message_id=message):
            return f"resend-{message}"
        case ReturnMessage(message_id=message):
            return f"return-{message}"
        case RequestBudget(field=field, limit=limit):
            return f"budget_request-{field}-{limit}"
        case GrantBudget(child_work_id=child, answer=answer):
            return f"budget_grant-{child}:{answer}"
        case NotifyParent():
            return "notify_parent"
        case Restore():
            return "restore_thread"
        case DescribeWorker():
            return "describe_worker"
        case FindStopping():
            return "find_stopping_ancestor"
        case Archive(number=number):
            return f"archive-{number}"
        case _:
            assert_never(work)


_NUMBERED = re.compile(r"(resolve|handoff|infer|cancel_remote|compact|hooks|archive)-([0-9]{1,18})")
_NUMBERED_WORK: Mapping[str, Callable[[int], Work]] = {
    "resolve": Resolve,
    "handoff": ResolveHandoff,
    "infer": Infer,
    "cancel_remote": CancelRemote,
    "compact": Compact,
    "hooks": Hooks,
    "archive": Archive,
}
_CALLED = re.compile(r"(tool|delegate)(?:\.([0-9]{1,18}))?-(.*)", re.DOTALL)
_CALLED_WORK: Mapping[str, Callable[[str, int], Work]] = {"tool": CallTool, "delegate": Delegate}
_NAMED = re.compile(r"(cancel|send|resend|return)-(.*)", re.DOTALL)
_NAMED_WORK: Mapping[str, Callable[[str], Work]] = {
    "cancel": CancelTask,
    "send": SendMessage,
    "resend": ResendMessage,
    "return": ReturnMessage,
}
SCHEDULED_DELIVERY = "deliver_scheduled"
"""The activity of a schedule's firing, which is a workflow of its own: no thread's work has this id."""

_CONSTANT_WORK: Mapping[str, Work] = {
    "notify_parent": NotifyParent(),
    "restore_thread": Restore(),
    "describe_worker": DescribeWorker(),
    "find_stopping_ancestor": FindStopping(),
}
_TASK = re.compile(r"bg_([0-9]{1,18})")
_REQUEST = re.compile(r"budget_request-(\w+)-(?:([0-9]{1,18})|([0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?))")
_GRANT = re.compile(r"budget_grant-(.*):([^:]*)", re.DOTALL)


def parse_work(id: str) -> Work | None:
    """What an id names; None of an id that is not Wakeful's."""
    work = _read_work(id)
    # Ids that only look like ours, such as `infer-007`, are not ours.
    return work if work is not None and work_id(work) == id else None


def _read_work(id: str) -> Work | None:
    if match := _NUMBERED.fullmatch(id):
        return _NUMBERED_WORK[match[1]](int(match[2]))
    if match := _CALLED.fullmatch(id):
        return _CALLED_WORK[match[1]](match[3], int(match[2] or 1))
    if match := _NAMED.fullmatch(id):
        return _NAMED_WORK[match[1]](match[2])
    if match := _TASK.fullmatch(id):
        return Task(int(match[1]))
    if match := _REQUEST.fullmatch(id):
        return RequestBudget(match[1], int(match[2]) if match[2] else float(match[3]))
    if match := _GRANT.fullmatch(id):
        return GrantBudget(match[1], match[2])
    return _CONSTANT_WORK.get(id)


def _nth(execution: int) -> str:
    # Before the call id, which may contain anything: no two calls can have the same work id.
    return f".{execution}" if execution > 1 else ""


@dataclass(frozen=True)
class FromActivity:
    """The result of the activity with this id."""

    activity_id: str


@dataclass(frozen=True)
class FromInput:
    """The n-th message of the request that started the execution."""

    index: int


@dataclass(frozen=True)
class FromSubmit:
    """A message of the thread's n-th `submit` signal."""

    submission: int
    index: int


@dataclass(frozen=True)
class FromSnapshot:
    """A message that was waiting when the thread continued as new; it came with the snapshot."""

    message_id: str


@dataclass(frozen=True)
class FromChild:
    """The result that a sub-agent or a background task reported with `child_settled`."""

    work_id: str


@dataclass(frozen=True)
class FromMail:
    """Mail that the `deliver` signal brought."""

    message_id: str


Location = FromActivity | FromInput | FromSubmit | FromSnapshot | FromChild | FromMail
"""Where a transcript entry is recorded, if it is not spelled out."""


def source(location: Location) -> str:
    """How an inference input spells where an entry is recorded."""
    match location:
        case FromActivity(activity_id=id):
            return id
        case FromInput(index=index):
            return f"input:{index}"
        case FromSubmit(submission=number, index=index):
            return f"submit:{number}:{index}"
        case FromSnapshot(message_id=message):
            return f"snapshot:{message}"
        case FromChild(work_id=id):
            return f"child:{id}"
        case FromMail(message_id=message):
            return f"mail:{message}"
        case _:
            assert_never(location)


_INPUT = re.compile(r"input:([0-9]{1,18})")
_SUBMIT = re.compile(r"submit:([0-9]{1,18}):([0-9]{1,18})")
_NAMED_SOURCES: Mapping[str, Callable[[str], Location]] = {
    "snapshot": FromSnapshot,
    "child": FromChild,
    "mail": FromMail,
}


def parse_source(written: str) -> Location:
    """Where an entry is recorded. Whatever has no prefix of ours is an activity's id."""
    location = _read_source(written)
    return location if source(location) == written else FromActivity(written)


def _read_source(written: str) -> Location:
    if match := _INPUT.fullmatch(written):
        return FromInput(int(match[1]))
    if match := _SUBMIT.fullmatch(written):
        return FromSubmit(int(match[1]), int(match[2]))
    prefix, colon, rest = written.partition(":")
    return _NAMED_SOURCES[prefix](rest) if colon and prefix in _NAMED_SOURCES else FromActivity(written)


def run_id(seed: str, number: int) -> str:
    """The id of a thread's n-th run; the seed is unique to the chain of executions that begins the run."""
    return seed if number == 1 else f"{seed}.{number}"


def lineage(seed: int) -> str:
    """Tells the ids after a Temporal reset from the undone ones; the server chooses a new random seed at each reset."""
    return f"{seed & 0xFFFFFFFFFFFFFFFF:016x}"[-6:]


def lineage_after(run_id: str) -> str:
    """The lineage of a thread that is woken after this execution, which was reset."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:6]


def step_label(step: int, lineage: str = "") -> str:
    """The thread's step, as call ids show it; after a reset, together with the lineage that the reset began."""
    return f"{step}.{lineage}" if lineage else str(step)


def call_id(step_label: str, index: int) -> str:
    """Wakeful's own id of a tool call: the thread's step and the call's position in its answer, from 1."""
    return f"{step_label}-{index}"


_CALL = re.compile(r"([0-9]{1,18})(?:\.[0-9a-f]{6})?-([0-9]{1,18})")


def relabelled(call_id: str, lineage: str) -> str:
    """The id of the same call in another lineage; whatever is not made by `call_id` stays as it is."""
    match = _CALL.fullmatch(call_id)
    return f"{step_label(int(match[1]), lineage)}-{match[2]}" if match else call_id


def lineage_of(call_id: str) -> str:
    """The lineage that a call's id shows; empty if there was no reset."""
    return call_id.partition("-")[0].partition(".")[2] if _CALL.fullmatch(call_id) else ""


def asking_inference(call_id: str) -> str | None:
    """The work id of the inference whose answer asks for this call; None for an id that `call_id` has not made."""
    match = _CALL.fullmatch(call_id)
    return work_id(Infer(int(match[1]))) if match else None


def idempotency_key(run_id: str, call_id: str) -> str:
    """What a tool passes on to make a repeated call harmless; the same for every attempt and after every decision."""
    return f"{run_id}:{call_id}"


MCP_TOOL_LENGTH = 64
"""Characters that every provider accepts in the name of a tool."""


def mcp_tools_prefix(server: str) -> str:
    """What the ids of an MCP server's tools begin with."""
    return f"mcp__{_plain(server)}__"


def mcp_tool_ids(server: str, tools: Iterable[str]) -> dict[str, str]:
    """The ids of an MCP server's tools, by the server's own names.

    A tool whose name needs no change keeps it, so that a permission rule on it holds whatever else the server lists.
    One whose id is too long, or is another tool's, ends in a digest of its name.
    """
    made: dict[str, str] = {}
    taken: set[str] = set()
    for tool in sorted({*tools}, key=lambda name: (_plain(name) != name, name)):
        plain = id = f"{mcp_tools_prefix(server)}{_plain(tool)}"
        salts = 0
        while id in taken or len(id) > MCP_TOOL_LENGTH:
            id = _with_digest(plain, f"{tool}{salts or ''}")
            salts += 1
        taken.add(id)
        made[tool] = id
    return made


def _plain(name: str) -> str:
    """The name in letters, digits and single underscores."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "x"


def _with_digest(id: str, name: str) -> str:
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{id[: MCP_TOOL_LENGTH - len(digest) - 1].rstrip('_')}_{digest}"


def suspension_id(call_id: str) -> str:
    """What a suspended call waits under, if its tool chose no id."""
    return f"suspend_{call_id}"


def permission_suspension_id(call_id: str) -> str:
    """What a call waits under that permission rules ask about."""
    return f"perm_{call_id}"


def distinct_suspension_id(id: str, call_id: str) -> str:
    """A suspension id in place of one that another suspension of the thread has."""
    return f"{id}:{call_id}"


def ticket_id(thread_id: str, call_id: str) -> str:
    """How people name a pending decision: `wakeful approve THREAD/CALL`."""
    return f"{thread_id}/{call_id}"


def ticket_readings(ticket: str) -> Iterator[tuple[str, str]]:
    """The threads and calls that a ticket can mean, as either may contain slashes: the longest thread id first."""
    parts = ticket.split("/")
    for cut in range(len(parts) - 1, 0, -1):
        thread_id, target = "/".join(parts[:cut]), "/".join(parts[cut:])
        if thread_id and target:
            yield thread_id, target


def remote_message_id(execution_run_id: str, work_id: str) -> str:
    """The id of the message that a call sends to a remote agent; the same for every attempt, and another after a reset.

    The run id of the execution is globally unique, so no two deployments use the same.
    """
    return _uuid("message", execution_run_id, work_id)


def remote_context_id(execution_run_id: str, work_id: str) -> str:
    """The id of the conversation with a remote agent that this call begins."""
    return _uuid("context", execution_run_id, work_id)


def _uuid(*parts: str) -> str:
    """A name-based UUID, of the version that RFC 9562 leaves to applications: services may accept nothing else."""
    digest = bytearray(hashlib.sha256("\n".join(parts).encode()).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def message_id(run_id: str, position: int) -> str:
    """The id of the transcript's n-th entry, written by this run."""
    return f"{run_id}:{position}"


def submitted_message_id(submission: int, index: int) -> str:
    """The id of a submitted message that its sender gave none."""
    return f"submit:{submission}:{index}"


def child_message_id(thread_id: str) -> str:
    """The id of the message that reports a background task's end to its owner's model."""
    return f"child_settled:{thread_id}"


def interrupted_message_id(call_id: str) -> str:
    """The id of the result of a call that was under way when its thread was terminated."""
    return f"interrupted:{call_id}"


def agent_message_id(thread_id: str, run_id: str, call_id: str) -> str:
    """The id of a message between agents: the same whenever this call sends it."""
    sender = "\n".join((thread_id, run_id, call_id))
    return f"msg_{hashlib.sha256(sender.encode()).hexdigest()[:24]}"


def task_event_id(thread_id: str, emitter: str, number: int) -> str:
    """The id of an event of a background task; `emitter` is unique to the attempt of the activity that emits it."""
    return f"{thread_id}:{emitter}:{number}"


def is_task_message(message_id: str, thread_id: str) -> bool:
    """Whether a message reports the end of the task that runs in this thread, or an event of it."""
    return message_id == child_message_id(thread_id) or message_id.startswith(f"{thread_id}:")


def context_message_id(key: str) -> str:
    """The id of a context message in a request; it is never part of a transcript."""
    return f"context:{key}"


THREAD_ID_BYTES = 200
"""Of a thread's id, at most: Temporal's SQL stores keep 255 characters of a workflow id, and an archive's is longer."""

_UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories whose characters never change: control characters, halves of surrogate pairs, line separators."""


def thread_id_problem(thread_id: str) -> str | None:
    """Why no thread can have this id; None if one can."""
    if not thread_id:
        return "a thread id must not be empty"
    shown = repr(thread_id if len(thread_id) <= CHILD_NAME_LENGTH else f"{thread_id[:CHILD_NAME_LENGTH]}…")
    if unsafe := next(filter(_is_unsafe, thread_id), None):
        advice = "leave out control characters, line breaks, double quotes and backslashes"
        return f"thread id {shown} has the character {unsafe!r}: {advice}"
    if (size := len(thread_id.encode())) > THREAD_ID_BYTES:
        return f"thread id {shown} has {size:,} bytes: use at most {THREAD_ID_BYTES}, because longer ids are made of it"
    if archived_thread_id(thread_id):
        return f"thread id {shown} is like that of an archive: leave out '/archive/'"
    if pushed_thread_id(thread_id):
        return f"thread id {shown} is like that of push notifications: choose another end than {_PUSH!r}"
    return None


def _is_unsafe(character: str) -> bool:
    # Temporal's list queries do not find what has a double quote or a backslash, however it is escaped.
    return character in '"\\' or unicodedata.category(character) in _UNSAFE


CHILD_NAME_LENGTH = 40


def child_thread_id(parent: str, root: str, name: str, unique: str) -> str:
    """A child's thread id. It starts with its parent's; if that is too long, with its root's; else it stands alone."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:CHILD_NAME_LENGTH] or "task"
    for above in (parent, root):
        id = f"{above}/{readable}-{unique[:8]}"
        if len(id.encode()) <= THREAD_ID_BYTES:
            return id
    return f"{readable}-{unique}"


def archive_prefix(thread_id: str) -> str:
    """How the workflow ids of a thread's archives begin."""
    return f"{thread_id}/archive/"


def archive_id(thread_id: str, number: int, digest: str) -> str:
    """The workflow id of an archive: the same content has the same id, and another past of the thread another one."""
    return f"{archive_prefix(thread_id)}{number}-{digest}"


def last_archive_id(thread_id: str) -> str:
    """The workflow id of the archive that a thread writes as its last act before it closes."""
    return f"{archive_prefix(thread_id)}last"


def archived_thread_id(archive_id: str) -> str:
    """The thread of an archive."""
    return archive_id.rpartition("/archive/")[0]


_PUSH = "/a2a-push"


def a2a_thread_id(context_id: str, tenant: str | None) -> str:
    """The thread of an A2A context. No id that an application gives its own threads is like it by accident.

    A slash is escaped: the id of a sub-agent's thread begins with that of its parent and a slash.
    """
    owner = "a2a" if tenant is None else f"a2a@{quote(tenant, safe='')}"
    return f"{owner}:{context_id.replace('%', '%25').replace('/', '%2F')}"


def a2a_context_id(thread_id: str) -> str:
    """The A2A context of a thread: its id, if that is not like those above; older releases gave contexts no prefix."""
    parsed = _A2A_THREAD.fullmatch(thread_id)
    return parsed[1].replace("%2F", "/").replace("%25", "%") if parsed else thread_id


_A2A_THREAD = re.compile(r"a2a(?:@[^:]*)?:(.+)", re.DOTALL)


def push_id(thread_id: str) -> str:
    """The workflow id of the push notifications of a thread's A2A tasks."""
    return f"{thread_id}{_PUSH}"


def pushed_thread_id(push_id: str) -> str:
    """The thread of such a workflow; empty of another id."""
    return push_id.removesuffix(_PUSH) if push_id.endswith(_PUSH) else ""


def notification_id(task_id: str, config_id: str, state: str) -> str:
    """The id of the push notification of a state: the same whenever it is sent to this webhook."""
    sent = "\n".join((task_id, config_id, state))
    return hashlib.sha256(sent.encode(errors="surrogatepass")).hexdigest()[:32]


def is_child(thread_id: str, parent: str) -> bool:
    """Whether a thread is a child of another, by its id."""
    return thread_id.rpartition("/")[0] == parent


def is_descendant(thread_id: str, ancestor: str) -> bool:
    """Whether a thread is a descendant of another, by its id."""
    return thread_id.startswith(f"{ancestor}/")


def request_thread_id(agent_id: str, request_id: str, *, tenant: str | None = None, user: str | None = None) -> str:
    """The thread that an MCP request by this id opens: the same whenever the request is repeated.

    It ends in a seal of the tenant and the user that the server serves, so that the id alone shows whose thread it is.
    """
    named = json.dumps([agent_id, request_id])
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", agent_id)[:CHILD_NAME_LENGTH] or "request"
    opened = f"mcp-{readable}-{hashlib.sha256(named.encode()).hexdigest()[:24]}"
    return f"{opened}-{_seal(opened, tenant, user)}"


def is_request_thread(thread_id: str, *, tenant: str | None, user: str | None) -> bool:
    """Whether `request_thread_id` made the id for this tenant and user."""
    opened, _, seal = thread_id.rpartition("-")
    return opened.startswith("mcp-") and seal == _seal(opened, tenant, user)


def _seal(opened: str, tenant: str | None, user: str | None) -> str:
    return hashlib.sha256(json.dumps([opened, tenant, user]).encode()).hexdigest()[:16]


def request_message_id(request_id: str) -> str:
    """The message of a request by this id, on whatever thread: sent again, it has no effect."""
    return f"request_{hashlib.sha256(request_id.encode(errors='surrogatepass')).hexdigest()[:24]}"


def text_message_id(text: str, run: int) -> str:
    """A message without an id of its own, during a thread's n-th run: sent again meanwhile, it has no effect."""
    named = f"{run}\n{text}"
    return f"text_{hashlib.sha256(named.encode(errors='surrogatepass')).hexdigest()[:24]}"
