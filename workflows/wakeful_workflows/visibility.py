"""What Temporal UI and lists show of a thread: search attributes, the memo's title, and the current details."""

import json
import shlex
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, SearchAttributeUpdate, TypedSearchAttributes

from wakeful.contract import names
from wakeful.contract.base import json_bytes
from wakeful.contract.ids import ticket_id
from wakeful.contract.limits import cut
from wakeful.contract.missing import Missing
from wakeful.contract.requests import RunRequest, title_of
from wakeful.contract.runs import RunIdentity, RunResult, RunStatus, outcome_of, reason_code
from wakeful.contract.users import Users, shown_users
from wakeful.contract.views import PendingView
from wakeful.loop.calls.batch import SuspendedCall
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import Thread
from wakeful.loop.subagents.tree import stops_children
from wakeful.loop.thread.views import doing, pending_view
from wakeful_workflows.history_estimate import UPSERT, HistoryEstimate
from wakeful_workflows.run_log import log_end

AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
OUTCOME = SearchAttributeKey.for_keyword(names.ATTRIBUTE_OUTCOME)
REASON = SearchAttributeKey.for_keyword(names.ATTRIBUTE_REASON)
PARENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_PARENT)
TENANT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_TENANT)
USER = SearchAttributeKey.for_keyword(names.ATTRIBUTE_USER)
USERS = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_USERS)
PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)

ID_LIMIT = 255
LIST_LIMIT = 1_500
"""Bytes of one id, and of all entries of a list: the server rejects longer ones, which would leave the run stuck."""

ARGUMENTS_LENGTH = 600
"""Characters of a call's arguments in the details."""

LISTED_CHILDREN = 20
"""Sub-agents and tasks in the details."""

Updates = list[SearchAttributeUpdate[str] | SearchAttributeUpdate[Sequence[str]]]


class Visibility:
    """Keeps the attributes in step with the state; they are upserted only when they change."""

    def __init__(self, history: HistoryEstimate, status: RunStatus | None = None) -> None:
        self._history = history
        self.status = status
        """The status that the search attributes show."""
        self._ended: RunResult | None = None
        """The newest run that has ended since the last `show_run_ends`."""

    def set_title(self, request: RunRequest) -> None:
        """Give the thread a title, unless its starter did."""
        if names.MEMO_TITLE not in workflow.memo():
            workflow.upsert_memo({names.MEMO_TITLE: title_of(request)})
            self._history.add(UPSERT)

    def show_closing(self, thread: Thread) -> None:
        """Show a client that a message would come too late for this execution."""
        if thread.is_closing:
            self.mark_closing()

    def show_stopping(self, thread: Thread) -> None:
        """Show descendants, before it reaches them, that they are being cancelled."""
        stops = stops_children(thread)
        # A codec's null stays in the memo of the next execution, so its value counts.
        shown = bool(workflow.memo_value(names.MEMO_STOPPING, False))
        if not isinstance(thread.stage, Done) and stops != shown:
            workflow.upsert_memo({names.MEMO_STOPPING: True if stops else None})
            self._history.add(UPSERT)

    def mark_closing(self) -> None:
        if names.MEMO_CLOSING not in workflow.memo():
            workflow.upsert_memo({names.MEMO_CLOSING: True})
            self._history.add(UPSERT)

    def mark_ended(self, result: RunResult | None = None) -> None:
        """Show that the workflow itself closes the execution, which does not complete; `result` has no other place."""
        kept = {} if result is None else {names.MEMO_RESULT: result.model_dump(mode="json")}
        workflow.upsert_memo({names.MEMO_ENDED: True, **kept})
        self._history.add(UPSERT, size=json_bytes(kept))

    def on_run_ended(self, result: RunResult) -> None:
        """Report the end of a run once: in the log, and with the next `show`, in the search attributes."""
        log_end(result)
        self._ended = result

    def show_run_ends(self, thread: Thread, attributes: Collection[str]) -> None:
        """Show that a run has ended although the next one started at once."""
        ended, self._ended = self._ended, None
        if ended is not None and thread.result is None and self.status not in (None, RunStatus.DONE):
            self._upsert([STATUS.value_set(RunStatus.DONE.value), *_outcome(ended)], attributes)
            self.status = RunStatus.DONE

    def show_rejected(self, result: RunResult, asked: Mapping[str, object], attributes: Collection[str]) -> None:
        """Show a run that never began, and as far as its request says it, for whom it was asked."""
        updates: Updates = [STATUS.value_set(RunStatus.DONE.value), *_outcome(result)]
        for key, field in ((AGENT, "agent_id"), (TENANT, "tenant"), (USER, "user")):
            if (name := _named(asked, field)) is not None:
                updates.append(key.value_set(name))
        users = Users().adding(_named(asked, "user"))
        updates.append(USERS.value_set(shown_users(users, limit=LIST_LIMIT)))
        self._upsert(updates, attributes)

    def show(self, thread: Thread, attributes: Collection[str], *, missing: Sequence[Missing] = ()) -> None:
        """Show the thread, what workers lack for it, and those search attributes that the namespace has."""
        workflow.set_current_details(details(thread, missing))
        if attributes:
            self._upsert(self._updates(thread), attributes)
            self.status = thread.status
            self._show_pending(pending_view(thread))

    def _show_pending(self, view: PendingView | None) -> None:
        """Keep what lists show of pending decisions in the memo, so that an inbox reads no thread."""
        pending = None if view is None else view.model_dump(mode="json")
        # Temporal passes the memo on to the next execution, too.
        if pending != workflow.memo_value(names.MEMO_PENDING, None):
            workflow.upsert_memo({names.MEMO_PENDING: pending})
            self._history.add(UPSERT, size=json_bytes(pending))

    def _upsert(self, updates: Updates, attributes: Collection[str]) -> None:
        updates = [update for update in updates if update.key.name in attributes]
        if not updates:
            return
        workflow.upsert_search_attributes(updates)
        self._history.add(UPSERT, size=sum(len(repr(update.value).encode()) for update in updates))

    def _updates(self, thread: Thread) -> Updates:
        updates: Updates = []
        if thread.status is not self.status:
            updates.append(STATUS.value_set(thread.status.value))
        if self.status is None:
            updates.append(AGENT.value_set(_keyword(thread.identity.agent_id)))
            if thread.identity.parent_thread_id is not None:
                updates.append(PARENT.value_set(thread.identity.parent_thread_id))
            if thread.identity.tenant is not None:
                updates.append(TENANT.value_set(thread.identity.tenant))
        updates += _outcome(thread.result)
        # Temporal passes attributes on to the next execution, so this is what they show there, too.
        shown = workflow.info().typed_search_attributes
        if (user := thread.identity.user) != shown.get(USER):
            updates.append(USER.value_unset() if user is None else USER.value_set(user))
        users = shown_users(thread.users, limit=LIST_LIMIT)
        # No history of a release without this attribute has it in its own list of attributes, so none replays to this.
        if users != list(shown.get(USERS) or ()):
            updates.append(USERS.value_set(users))
        pending = _pending_ids(thread)
        if pending != list(shown.get(PENDING) or ()):
            updates.append(PENDING.value_set(pending) if pending else PENDING.value_unset())
        return updates


def task_attributes(identity: RunIdentity, attributes: Collection[str]) -> TypedSearchAttributes:
    """What lists find a background tool by: those of its owner's attributes that do not change while it runs.

    Its starter sets them: an upsert of its own would have to know first what the namespace has.
    """
    values = (
        (AGENT, _keyword(identity.agent_id)),
        (PARENT, identity.thread_id),
        (TENANT, identity.tenant),
        (USER, identity.user),
    )
    return TypedSearchAttributes(
        [SearchAttributePair(key, value) for key, value in values if value is not None and key.name in attributes]
    )


def _named(asked: Mapping[str, object], field: str) -> str | None:
    """A name in a request that was rejected: it may be anything."""
    return _keyword(name) if isinstance(name := asked.get(field), str) and name else None


def _keyword(text: str) -> str:
    """A text as a store accepts it for a keyword: an agent that no worker knows can have any id."""
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable.encode(errors="replace")[:ID_LIMIT].decode(errors="ignore")


def _outcome(result: RunResult | None) -> Updates:
    """How the newest run ended, unless the attributes show it; a run that has begun since clears it."""
    shown = workflow.info().typed_search_attributes
    ended = None if result is None else result.termination
    values = (OUTCOME, outcome_of(ended) if ended else None), (REASON, reason_code(ended) if ended else None)
    return [
        key.value_unset() if value is None else key.value_set(value) for key, value in values if value != shown.get(key)
    ]


def _pending_ids(thread: Thread) -> list[str]:
    """The calls that wait for a decision, as many as fit."""
    ids: list[str] = []
    room = LIST_LIMIT
    for call in thread.batch.suspended if thread.batch else ():
        size = len(json.dumps(call.call.id))
        if size <= min(ID_LIMIT, room):
            ids.append(call.call.id)
            room -= size
    return ids


def details(thread: Thread, missing: Sequence[Missing] = ()) -> str:
    """The thread in markdown, with the commands that answer each pending decision.

    Temporal UI neither wraps nor scrolls code, so long commands are broken by hand.
    """
    run = thread.run
    tokens, step = (run.usage.total_tokens or 0, run.step.number) if run else (0, 0)
    lines = [f"**{doing(thread)}** · agent `{thread.identity.agent_id}` · step {step} · {tokens} tokens"]
    for each in missing:
        lines += ["", _waiting_for_worker(each)]
    lines += _owners(thread)
    lines += _relatives(thread)
    for call in thread.batch.suspended if thread.batch else ():
        lines += ["", *_pending(thread.identity.thread_id, call)]
    if thread.refusals:
        lines += ["", f"Last refusal: {thread.refusals[-1].signal}: {thread.refusals[-1].reason}"]
    return "\n".join(lines)


def _owners(thread: Thread) -> list[str]:
    """The thread's tenant, and the user for whom its run acts."""
    named = {"Tenant": thread.identity.tenant, "User": thread.identity.user}
    shown = [f"{label} {_quoted(name)}" for label, name in named.items() if name is not None]
    return ["", " · ".join(shown)] if shown else []


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "'") + "`"


def _relatives(thread: Thread) -> list[str]:
    """The thread's origin, its parent, and its running children."""
    lines = []
    if (origin := thread.identity.forked_from) is not None:
        lines += ["", f"Forked from `{origin.thread_id}` after step {origin.step}"]
    if thread.identity.parent_thread_id is not None:
        lines += ["", f"Sub-agent of `{thread.identity.parent_thread_id}`"]
    delegates = [call for call in thread.batch.running if call.child_thread_id is not None] if thread.batch else []
    children = [f"`{call.call.name}` · `{call.child_thread_id}`" for call in delegates]
    children += [f"{task.name or task.task_id} · `{task.thread_id}`" for task in thread.children.running]
    if children:
        lines += ["", "Running children:", *(f"- {child}" for child in children[:LISTED_CHILDREN])]
        if len(children) > LISTED_CHILDREN:
            lines.append(f"- and {len(children) - LISTED_CHILDREN} more")
    return lines


def _pending(thread_id: str, call: SuspendedCall) -> list[str]:
    question = call.ticket.suspension.message or call.ticket.suspension.action
    answer = json.dumps({"call_id": call.call.id, "action": "resume"})
    ticket = ticket_id(thread_id, call.call.id)
    # After `--` nothing is taken for an option, whatever a thread is called.
    named = f"-- {shlex.quote(ticket)}" if ticket.startswith("-") else shlex.quote(ticket)
    return [
        f"### {' '.join(question.split())}",
        f"`{call.call.name}` with `{_arguments(call)}` waits for a decision{_deadline(call)}:",
        "```",
        "# resume it",
        "wakeful approve \\",
        f"  {named}",
        "",
        "# or cancel it",
        "wakeful deny --reason 'not now' \\",
        f"  {named}",
        "",
        "# without Wakeful installed",
        "temporal workflow signal --name decide \\",
        f"  --workflow-id {shlex.quote(thread_id)} \\",
        f"  --input {shlex.quote(answer)}",
        "```",
        f"On this page: *More Actions → Send a Signal*, `decide`, `{answer}`",
    ]


def _waiting_for_worker(missing: Missing) -> str:
    worker = f"Worker `{missing.worker}`" if missing.worker else "A worker"
    known = f", which knows {', '.join(missing.known)}," if missing.known else ""
    if missing.reason:
        waiting = f"**Waiting for {missing.what}** since {_clock(missing.missing_since)}: {missing.reason}."
        return f"{waiting} {worker} cannot reach it; it is tried again until {_clock(missing.retried_until)}."
    waiting = f"**Waiting for a worker that has {missing.what}** since {_clock(missing.missing_since)}."
    return f"{waiting} {worker}{known} lacks it; others are tried until {_clock(missing.retried_until)}."


def _clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _arguments(call: SuspendedCall) -> str:
    arguments = json.dumps(call.ticket.pending.arguments, ensure_ascii=False).replace("`", "'")
    return cut(arguments, ARGUMENTS_LENGTH)


def _deadline(call: SuspendedCall) -> str:
    at, expiry = call.ticket.expires_at, call.ticket.suspension.expiry
    if at is None:
        return ""
    until = f" until {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    return f"{until}, then: {expiry.then.value}" if expiry else until
