"""Decisions that `wakeful chat` asks for inline. An answer is bound to what was shown, as by `wakeful approve`."""

import json
import shlex
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from wakeful.cli.answers import Answer, send_answer, whoever
from wakeful.cli.folding import path_words
from wakeful.cli.prompting import Prompts
from wakeful.cli.scrolling import cut
from wakeful.cli.showing import compact, duration, printable, spelled
from wakeful.cli.telling import SIGN, Telling
from wakeful.client import WakefulClient
from wakeful.contract.decisions import DecisionAction, ResumeMode
from wakeful.contract.errors import WakefulError
from wakeful.inbox import PendingDecision


@dataclass(frozen=True)
class Wish:
    """What somebody typed at a question, understood."""

    kind: Literal["yes", "no", "always", "edit"]
    rest: str = ""


class Questions:
    """Asks until an answer is taken."""

    def __init__(self, client: WakefulClient, prompts: Prompts, telling: Telling) -> None:
        self._client = client
        self._prompts = prompts
        self._telling = telling

    async def ask(self, pending: PendingDecision) -> None:
        """Ask for one decision and send it.

        Raises:
            Interrupted, LeftPrompt, Dismissed: there was no answer.
        """
        for line in question_lines(pending):
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


def question_lines(pending: PendingDecision) -> list[str]:
    """What is asked: the call with everything it is called with, for whom, and for how long."""
    lines = [f"‖ {printable(spelled(pending.tool_name, pending.arguments))}"]
    if len(pending.path) > 1:
        lines.append(f"  asked by {printable(pending.agent_id)}, below: {path_words(pending.path[1:])}")
    if pending.message:
        lines.append(f"  {printable(pending.message)}")
    if pending.response_schema is not None:
        lines.append(f"  the answer has to fit {printable(compact(pending.response_schema))}")
    if pending.expires_at is not None and pending.since is not None and pending.age is not None:
        left = (pending.expires_at - pending.since) / 1000 - pending.age
        lines.append(f"  {duration(max(0.0, left))} left")
    return lines


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
