"""Ask for decisions in `wakeful chat`. An answer is bound to what was shown, as that of `wakeful approve` is."""

import json
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from wakeful.cli.answers import Answer, current_user, send_answer
from wakeful.cli.chat.prompt import Prompts
from wakeful.cli.terminal.live_view import LiveView
from wakeful.cli.terminal.pending_lines import seconds_left
from wakeful.cli.terminal.render import PROMPT
from wakeful.cli.terminal.screen import display_width, truncated
from wakeful.cli.terminal.text import (
    call_text,
    compact,
    duration,
    escape_invisible,
    printable,
    thread_path,
    whole_command,
)
from wakeful.client.approvals import PendingDecision
from wakeful.client.client import Client
from wakeful.contract.decisions import DecisionAction
from wakeful.contract.errors import WakefulError

INDENT = "      "
MOST_ROWS = 12
"""Of a call or a message, so that the question stays in the window."""


@dataclass(frozen=True)
class Choice:
    """What a person typed at a question."""

    kind: Literal["yes", "no", "always", "edit"]
    rest: str = ""


class Questions:
    """Asks until a decision is accepted."""

    def __init__(self, client: Client, prompts: Prompts, view: LiveView) -> None:
        self._client = client
        self._prompts = prompts
        self._view = view

    async def ask(self, pending: PendingDecision) -> None:
        """Ask for one decision and send it.

        Raises:
            Interrupted, LeftPrompt, Dismissed: there was no answer.
        """
        for line in question_lines(pending, self._view.screen.columns - 1):
            self._view.line(line)
        self._view.release()
        self._prompts.discard_typeahead()
        while True:
            typed = await self._prompts.answer(f"  {choices_text(pending)} {PROMPT}")
            self._view.screen.reacquire()
            try:
                answer = await self._parse_answer(pending, typed)
                if answer is None:
                    continue
                outcome = await send_answer(self._client, pending.thread_id, pending.call_id, answer, shown=pending)
            except (ValueError, WakefulError) as error:
                self._view.line(f"  ! {printable(str(error))}")
            else:
                screen = self._view.screen
                screen.line(screen.colours.dim(truncated(f"  {outcome}", screen.columns - 1)))
                is_approved = answer.action is DecisionAction.RESUME
                self._view.decided(pending.thread_id, pending.call_id, is_approved=is_approved)
                return

    async def _parse_answer(self, pending: PendingDecision, typed: str) -> Answer | None:
        """The answer that was typed; None for an empty line.

        Raises:
            ValueError: it is not an answer, or not one to this question.
        """
        if not typed.strip():
            return None
        choice = parse_choice(typed)
        match choice.kind:
            case "no":
                return Answer(DecisionAction.CANCEL, reason=choice.rest or None, actor=current_user())
            case "always" if not pending.remember:
                raise ValueError("this call has no rule to remember: answer y or n")
            case "edit":
                arguments = await self._edit_arguments(pending)
                return Answer(DecisionAction.RESUME, arguments=arguments, actor=current_user())
            case _:
                result = parse_json(choice.rest, "the answer") if choice.rest else None
                if result is None and pending.needs_result:
                    raise ValueError("this call takes your answer as its result: y, then the answer as JSON")
                always = choice.kind == "always"
                return Answer(DecisionAction.RESUME, result=result, always=always, actor=current_user())

    async def _edit_arguments(self, pending: PendingDecision) -> JsonValue:
        typed = compact(pending.arguments)
        while True:
            typed = await self._prompts.answer(f"  arguments {PROMPT}", default=typed)
            self._view.screen.reacquire()
            try:
                return parse_json(typed, "what you typed")
            except ValueError as error:
                self._view.line(f"  ! {printable(str(error))}")


def parse_choice(typed: str) -> Choice:
    """A choice by its word or first letter, and the rest of the line."""
    word, _, rest = typed.strip().partition(" ")
    for kind in ("yes", "no", "always", "edit"):
        if word.lower() in (kind, kind[0]):
            return Choice(kind, rest.strip())
    raise ValueError(f"{typed.strip()!r} is not an answer: type y, n with a reason, a, or e")


def parse_json(text: str, what: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is not JSON: {error}; a text needs quotes") from None
    return value


def question_lines(pending: PendingDecision, columns: int) -> list[str]:
    """The question: the call with all its arguments, who asks, and how much time is left.

    A model wrote most of it. It is wrapped here under an indent, so that none of its words can pass for ours; if it is
    too long for a window, the line above the choices says so.
    """
    call = call_text(pending.tool_name, pending.arguments)
    lines, is_whole = _wrapped("‖ ", escape_invisible(call), columns)
    if len(pending.path) > 1:
        asker = f"asked by sub-agent {printable(pending.agent_id)}: {thread_path(pending.path[1:])}"
        lines += _wrapped("  ", asker, columns)[0]
    if pending.message:
        lines += _wrapped("  ", printable(pending.message), columns)[0]
    if pending.response_schema is not None:
        schema = printable(compact(pending.response_schema))
        lines += _wrapped("  ", f"the answer must match this schema: {schema}", columns)[0]
    if (left := seconds_left(pending)) is not None:
        lines.append(f"  {duration(max(0.0, left))} left")
    if not is_whole:
        whole = whole_command(pending.thread_id)
        name = printable(pending.tool_name)
        lines.append(f"  ! only a part of {name} is shown, which has {len(call):,} characters; see all: {whole}")
    return lines


def _wrapped(lead: str, text: str, columns: int) -> tuple[list[str], bool]:
    """The text under a hanging indent, and whether it is whole; of a long text, the beginning and the end."""
    room = max(10, columns - len(INDENT))
    rows, used = [""], 0
    for char in text:
        used += display_width(char)
        if used > room:
            rows.append("")
            used = display_width(char)
        rows[-1] += char
    is_whole = len(rows) <= MOST_ROWS
    if not is_whole:
        rows = [*rows[: MOST_ROWS - 3], "…", *rows[-2:]]
    return [lead + rows[0], *(INDENT + row for row in rows[1:])], is_whole


def choices_text(pending: PendingDecision) -> str:
    """What the person may type."""
    parts = ["[y]es, with the answer as JSON" if pending.needs_result else "[y]es", "[n]o, with a reason"]
    if pending.remember:
        parts.append(f"[a]lways {printable(pending.remember)}")
    if isinstance(pending.arguments, dict) and not pending.needs_result:
        parts.append("[e]dit the arguments")
    return " · ".join(parts)
