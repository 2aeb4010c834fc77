"""Decisions that `wakeful chat` asks for inline. An answer is bound to what was shown, as by `wakeful approve`."""

import json
import shlex
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from wakeful.cli.chat.prompt import Prompts
from wakeful.cli.commands.decide import Answer, send_answer, whoever
from wakeful.cli.terminal.live_view import SIGN, Telling
from wakeful.cli.terminal.render import compact, duration, exact, printable, spelled
from wakeful.cli.terminal.screen import cut, width
from wakeful.cli.terminal.subagent_lines import path_words
from wakeful.client.approvals import PendingDecision
from wakeful.client.client import Client
from wakeful.contract.decisions import DecisionAction, ResumeMode
from wakeful.contract.errors import WakefulError

INDENT = "      "
QUESTION_ROWS = 12
"""Rows that a call or a message takes at most, so that the question stays in the window."""


@dataclass(frozen=True)
class Wish:
    """What somebody typed at a question, understood."""

    kind: Literal["yes", "no", "always", "edit"]
    rest: str = ""


class Questions:
    """Asks until an answer is taken."""

    def __init__(self, client: Client, prompts: Prompts, telling: Telling) -> None:
        self._client = client
        self._prompts = prompts
        self._telling = telling

    async def ask(self, pending: PendingDecision) -> None:
        """Ask for one decision and send it.

        Raises:
            Interrupted, LeftPrompt, Dismissed: there was no answer.
        """
        for line in question_lines(pending, self._telling.scroll.columns - 1):
            self._telling.line(line)
        self._telling.rest()
        self._prompts.forget_typed()
        while True:
            typed = await self._prompts.answer(f"  {choices(pending)} {SIGN}")
            self._telling.scroll.touched()
            try:
                answer = await self._understood(pending, typed)
                if answer is None:
                    continue
                said = await send_answer(self._client, pending.thread_id, pending.call_id, answer, shown=pending)
            except (ValueError, WakefulError) as error:
                self._telling.line(f"  ! {printable(str(error))}")
            else:
                scroll = self._telling.scroll
                scroll.line(scroll.colours.dim(cut(f"  {said}", scroll.columns - 1)))
                goes_on = answer.action is DecisionAction.RESUME
                self._telling.decided(pending.thread_id, pending.call_id, goes_on=goes_on)
                return

    async def _understood(self, pending: PendingDecision, typed: str) -> Answer | None:
        """The answer that was typed; nothing for an empty line.

        Raises:
            ValueError: it cannot be understood, or cannot be given here.
        """
        if not typed.strip():
            return None
        wish = understood(typed)
        match wish.kind:
            case "no":
                return Answer(DecisionAction.CANCEL, reason=wish.rest or None, actor=whoever())
            case "always" if not pending.remember:
                raise ValueError("there is no rule that could be remembered for this call: y or n")
            case "edit":
                return Answer(DecisionAction.RESUME, arguments=await self._edited(pending), actor=whoever())
            case _:
                result = parsed(wish.rest, "the answer") if wish.rest else None
                if result is None and wants_result(pending):
                    raise ValueError("this call takes your answer as its result: y, then the answer as JSON")
                return Answer(DecisionAction.RESUME, result=result, always=wish.kind == "always", actor=whoever())

    async def _edited(self, pending: PendingDecision) -> JsonValue:
        typed = compact(pending.arguments)
        while True:
            typed = await self._prompts.answer(f"  arguments {SIGN}", default=typed)
            self._telling.scroll.touched()
            try:
                return parsed(typed, "what you typed")
            except ValueError as error:
                self._telling.line(f"  ! {printable(str(error))}")


def understood(typed: str) -> Wish:
    """A choice by its first letter or its word, and what follows it."""
    word, _, rest = typed.strip().partition(" ")
    for kind in ("yes", "no", "always", "edit"):
        if word.lower() in (kind, kind[0]):
            return Wish(kind, rest.strip())
    raise ValueError(f"{typed.strip()!r} is no answer: y, n with a reason, a, or e")


def parsed(text: str, what: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is not JSON: {error}; a text needs quotes") from None
    return value


def question_lines(pending: PendingDecision, columns: int) -> list[str]:
    """What is asked: the call with everything it is called with, for whom, and for how long.

    A model chose most of it. It is wrapped here, under an indent of its own, so that no word of it can stand where our
    own words begin; and what is too long for a window says so right above the choices.
    """
    call = spelled(pending.tool_name, pending.arguments)
    lines, is_whole = _wrapped("‖ ", exact(call), columns)
    if len(pending.path) > 1:
        below = f"asked by {printable(pending.agent_id)}, below: {path_words(pending.path[1:])}"
        lines += _wrapped("  ", below, columns)[0]
    if pending.message:
        lines += _wrapped("  ", printable(pending.message), columns)[0]
    if pending.response_schema is not None:
        lines += _wrapped("  ", f"the answer has to fit {printable(compact(pending.response_schema))}", columns)[0]
    if pending.expires_at is not None and pending.since is not None and pending.age is not None:
        left = (pending.expires_at - pending.since) / 1000 - pending.age
        lines.append(f"  {duration(max(0.0, left))} left")
    if not is_whole:
        all_of_it = shlex.join(["wakeful", "inbox", "--thread", pending.thread_id, "--json"])
        name = printable(pending.tool_name)
        lines.append(f"  ! {name} with {len(call):,} characters, of which a part is shown: {all_of_it}")
    return lines


def _wrapped(lead: str, text: str, columns: int) -> tuple[list[str], bool]:
    """The text under a hanging indent, and whether that is all of it: of a long one, the beginning and the end."""
    room = max(10, columns - len(INDENT))
    rows, taken = [""], 0
    for char in text:
        taken += width(char)
        if taken > room:
            rows.append("")
            taken = width(char)
        rows[-1] += char
    is_whole = len(rows) <= QUESTION_ROWS
    if not is_whole:
        rows = [*rows[: QUESTION_ROWS - 3], "…", *rows[-2:]]
    return [lead + rows[0], *(INDENT + row for row in rows[1:])], is_whole


def choices(pending: PendingDecision) -> str:
    """What may be typed."""
    parts = ["[y]es, with the answer as JSON" if wants_result(pending) else "[y]es", "[n]o, with a reason"]
    if pending.remember:
        parts.append(f"[a]lways {printable(pending.remember)}")
    if isinstance(pending.arguments, dict) and not wants_result(pending):
        parts.append("[e]dit the arguments")
    return " · ".join(parts)


def wants_result(pending: PendingDecision) -> bool:
    """Whether a yes says nothing: the decision's result is what the model reads, or what the tool is called with."""
    return pending.response_schema is not None or pending.resume_mode in (
        ResumeMode.USE_DECISION_AS_TOOL_RESULT,
        ResumeMode.PASS_DECISION_TO_TOOL,
    )


def come_back(agent: str, thread_id: str, options: list[str]) -> str:
    """The command that goes on with a conversation."""
    return shlex.join(["wakeful", "chat", agent, "--thread", thread_id, *options])
