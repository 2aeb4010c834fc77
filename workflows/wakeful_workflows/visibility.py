"""What a person sees in Temporal UI and in lists: search attributes, the memo's title, and the current details."""

import json
import shlex

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from wakeful.contract import names
from wakeful.contract.requests import RunRequest, title_of
from wakeful.contract.runs import RunStatus
from wakeful.loop.state import RunState, SuspendedCall
from wakeful.loop.views import doing

AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
PARENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_PARENT)


class Visibility:
    """Keeps what is shown in step with the state; attributes are written only when the status changes."""

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
        if search_attributes and state.status is not self.shown:
            workflow.upsert_search_attributes(self._updates(state))
            self.shown = state.status

    def _updates(self, state: RunState) -> list[SearchAttributeUpdate[str]]:
        updates: list[SearchAttributeUpdate[str]] = [STATUS.value_set(state.status.value)]
        if self.shown is None:
            updates.append(AGENT.value_set(state.identity.agent_id))
            if state.identity.parent_thread_id is not None:
                updates.append(PARENT.value_set(state.identity.parent_thread_id))
        return updates


def details(state: RunState) -> str:
    """The run in markdown, with the command that answers each pending decision.

    Temporal UI neither wraps nor scrolls code, so long commands are broken by hand.
    """
    usage = f"{state.usage.total_tokens or 0} tokens"
    lines = [f"**{doing(state)}** · agent `{state.identity.agent_id}` · step {state.steps} · {usage}"]
    for call in state.batch.suspended if state.batch else ():
        lines += ["", *_pending(state.identity.thread_id, call)]
    if state.refusals:
        lines += ["", f"Last refusal: {state.refusals[-1].signal}: {state.refusals[-1].reason}"]
    return "\n".join(lines)


def _pending(thread_id: str, call: SuspendedCall) -> list[str]:
    asked = call.ticket.suspension.message or call.ticket.suspension.action
    arguments = json.dumps(call.call.arguments, ensure_ascii=False)
    answer = json.dumps({"call_id": call.call.id, "action": "resume"})
    thread, id = shlex.quote(thread_id), shlex.quote(call.call.id)
    return [
        f"### {asked}",
        f"`{call.call.name}` with `{arguments}` waits for a decision:",
        "```",
        "# go on",
        f"wakeful decide {thread} \\",
        f"  {id} resume",
        "",
        "# or not",
        f"wakeful decide {thread} \\",
        f"  {id} cancel --reason 'not now'",
        "",
        "# without Wakeful installed",
        "temporal workflow signal --name decide \\",
        f"  --workflow-id {thread} \\",
        f"  --input {shlex.quote(answer)}",
        "```",
        f"On this page: *More Actions → Send a Signal*, `decide`, `{answer}`",
    ]
