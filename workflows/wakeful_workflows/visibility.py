"""What a person sees in Temporal UI and in lists: search attributes, the memo's title, and the current details."""

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from wakeful.contract import names
from wakeful.contract.requests import RunRequest, title_of
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import ticket_name
from wakeful.loop.calls.batch import SuspendedCall
from wakeful.loop.machine.state import RunState
from wakeful.loop.thread.views import doing

AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
PARENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_PARENT)
PENDING = SearchAttributeKey.for_keyword_list(names.ATTRIBUTE_PENDING)

PENDING_SINCE_REVISION = 3
"""An older run was told by its worker that the three older attributes are registered, and nothing about this one."""

ID_LIMIT = 255
LIST_LIMIT = 1_500
"""Bytes of one id, and of all of them: the server refuses longer ones, which would leave the run stuck."""

SHOWN_LENGTH = 600
"""Characters of a call's arguments in the details."""

SHOWN_BELOW = 20
"""Sub-agents and tasks in the details."""

Updates = list[SearchAttributeUpdate[str] | SearchAttributeUpdate[Sequence[str]]]


class Visibility:
    """Keeps what is shown in step with the state; attributes are written only when they change."""

    def __init__(self, shown: RunStatus | None = None, *, runs: int = 1) -> None:
        self.shown = shown
        self._runs = runs

    def title(self, request: RunRequest) -> None:
        """Give the thread a title, unless whoever started it did."""
        if names.MEMO_TITLE not in workflow.memo():
            workflow.upsert_memo({names.MEMO_TITLE: title_of(request)})

    def show_ends(self, state: RunState, *, search_attributes: bool) -> None:
        """Show that a run has ended although the next has begun at once."""
        if search_attributes and state.runs > self._runs and self.shown not in (None, RunStatus.DONE):
            workflow.upsert_search_attributes([STATUS.value_set(RunStatus.DONE.value)])
            self.shown = RunStatus.DONE
        self._runs = state.runs

    def show(self, state: RunState, *, search_attributes: bool) -> None:
        workflow.set_current_details(details(state))
        if search_attributes and (updates := self._updates(state)):
            workflow.upsert_search_attributes(updates)
            self.shown = state.status

    def _updates(self, state: RunState) -> Updates:
        updates: Updates = []
        if state.status is not self.shown:
            updates.append(STATUS.value_set(state.status.value))
        if self.shown is None:
            updates.append(AGENT.value_set(state.identity.agent_id))
            if state.identity.parent_thread_id is not None:
                updates.append(PARENT.value_set(state.identity.parent_thread_id))
        if state.revision >= PENDING_SINCE_REVISION:
            pending = _pending_ids(state)
            # Temporal carries attributes over to the next execution, so this is what is shown there as well.
            if pending != list(workflow.info().typed_search_attributes.get(PENDING) or ()):
                updates.append(PENDING.value_set(pending) if pending else PENDING.value_unset())
        return updates


def _pending_ids(state: RunState) -> list[str]:
    """The calls that wait for a decision, as many as fit."""
    ids: list[str] = []
    room = LIST_LIMIT
    for call in state.batch.suspended if state.batch else ():
        size = len(json.dumps(call.call.id))
        if size <= min(ID_LIMIT, room):
            ids.append(call.call.id)
            room -= size
    return ids


def details(state: RunState) -> str:
    """The run in markdown, with the commands that answer each pending decision.

    Temporal UI neither wraps nor scrolls code, so long commands are broken by hand.
    """
    usage = f"{state.usage.total_tokens or 0} tokens"
    lines = [f"**{doing(state)}** · agent `{state.identity.agent_id}` · step {state.steps} · {usage}"]
    lines += _family(state)
    for call in state.batch.suspended if state.batch else ():
        lines += ["", *_pending(state.identity.thread_id, call)]
    if state.refusals:
        lines += ["", f"Last refusal: {state.refusals[-1].signal}: {state.refusals[-1].reason}"]
    return "\n".join(lines)


def _family(state: RunState) -> list[str]:
    """Where the run comes from, whom it belongs to, and who runs for it now."""
    lines = []
    if (origin := state.identity.forked_from) is not None:
        lines += ["", f"Forked from `{origin.thread_id}` after step {origin.step}"]
    if state.identity.parent_thread_id is not None:
        lines += ["", f"Sub-agent of `{state.identity.parent_thread_id}`"]
    delegates = [call for call in state.batch.running if call.child is not None] if state.batch else []
    names = [f"`{call.call.name}` · `{call.child}`" for call in delegates]
    names += [f"{task.name or task.task_id} · `{task.thread_id}`" for task in state.running_tasks]
    if names:
        lines += ["", "Runs below it:", *(f"- {name}" for name in names[:SHOWN_BELOW])]
        if len(names) > SHOWN_BELOW:
            lines.append(f"- and {len(names) - SHOWN_BELOW} more")
    return lines


def _pending(thread_id: str, call: SuspendedCall) -> list[str]:
    asked = call.ticket.suspension.message or call.ticket.suspension.action
    answer = json.dumps({"call_id": call.call.id, "action": "resume"})
    ticket = ticket_name(thread_id, call.call.id)
    # After `--` nothing is taken for an option, whatever a thread is called.
    named = f"-- {shlex.quote(ticket)}" if ticket.startswith("-") else shlex.quote(ticket)
    return [
        f"### {' '.join(asked.split())}",
        f"`{call.call.name}` with `{_shown(call)}` waits for a decision{_deadline(call)}:",
        "```",
        "# go on",
        "wakeful approve \\",
        f"  {named}",
        "",
        "# or not",
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


def _shown(call: SuspendedCall) -> str:
    arguments = json.dumps(call.ticket.pending.arguments, ensure_ascii=False).replace("`", "'")
    return arguments if len(arguments) <= SHOWN_LENGTH else arguments[: SHOWN_LENGTH - 1] + "…"


def _deadline(call: SuspendedCall) -> str:
    at, expiry = call.ticket.expires_at, call.ticket.suspension.expiry
    if at is None:
        return ""
    until = f" until {datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    return f"{until}, then: {expiry.then.value}" if expiry else until
