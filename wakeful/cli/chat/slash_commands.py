"""The commands that begin with a slash, in `wakeful chat`: few, and each as the command of its name."""

import json
import textwrap
from collections.abc import Awaitable, Callable
from time import time
from typing import Protocol

from wakeful.cli.terminal.call_lines import Result
from wakeful.cli.terminal.live_view import Telling
from wakeful.cli.terminal.render import compact, printable, readable, status_lines
from wakeful.cli.terminal.task_lines import family_lines
from wakeful.cli.terminal.tree_lines import tree_lines
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError

KEYS = (
    ("Enter", "sends; Alt-Enter or Ctrl-J begins a new line"),
    ("Ctrl-C", "clears what you type; while an answer comes, it interrupts the turn and not the thread"),
    ("Ctrl-O", "the newest results of tools, unfolded"),
    ("Ctrl-D", "leaves; the thread stays"),
)


class Talk(Protocol):
    """The conversation that a command is typed in."""

    client: Client
    telling: Telling

    @property
    def thread_id(self) -> str: ...

    async def fork(self, step: int, message: str | None) -> None: ...

    def leave(self) -> None: ...


Command = Callable[[Talk, str], Awaitable[None]]


async def run_command(talk: Talk, typed: str) -> None:
    """Do what was typed.

    Raises:
        CallerError: there is no such command, or it needs something else.
    """
    name, _, rest = typed.partition(" ")
    if name not in COMMANDS:
        raise CallerError(f"there is no command {name}: /help has them all; a message may begin with a space")
    await COMMANDS[name][1](talk, rest.strip())


async def _help(talk: Talk, _rest: str) -> None:
    for name, words in [*((name, words) for name, (words, _) in COMMANDS.items()), *KEYS]:
        talk.telling.line(f"  {name:<9} {talk.telling.scroll.colours.dim(words)}")


async def _status(talk: Talk, _rest: str) -> None:
    view = await talk.client.status(talk.thread_id)
    for line in [*status_lines(talk.thread_id, view), *family_lines(talk.thread_id, view)]:
        talk.telling.line(f"  {talk.telling.scroll.colours.labelled(readable(line))}")


async def _why(talk: Talk, _rest: str) -> None:
    found = await talk.client.why(talk.thread_id)
    for line in textwrap.wrap(printable(found.text), talk.telling.scroll.columns - 1, break_on_hyphens=False):
        talk.telling.scroll.line(line)


async def _tree(talk: Talk, _rest: str) -> None:
    seen = await talk.client.tree(talk.thread_id)
    for line in tree_lines(seen, now=int(time() * 1000), colours=talk.telling.scroll.colours.on):
        talk.telling.line(line)


async def _last(talk: Talk, rest: str) -> None:
    number = _number(rest or "1", "/last takes how many results you want to see")
    for result in list(talk.telling.results)[-number:]:
        for line in unfolded(result):
            talk.telling.line(line)
    if not talk.telling.results:
        talk.telling.line("· no tool was called yet")


async def _fork(talk: Talk, rest: str) -> None:
    step, _, message = rest.partition(" ")
    otherwise = "/fork takes the step to go on from, as `wakeful show` counts them, and what to say then"
    await talk.fork(_number(step, otherwise), message.strip() or None)


async def _quit(talk: Talk, _rest: str) -> None:
    talk.leave()


COMMANDS: dict[str, tuple[str, Command]] = {
    "/help": ("this", _help),
    "/status": ("where the thread stands, and what it waits for", _status),
    "/why": ("why it stands there, and what to do about it", _why),
    "/tree": ("sub-agents and background tasks", _tree),
    "/last": ("the newest result of a tool, unfolded; /last 3 the newest three", _last),
    "/fork": ("/fork 4 And in winter? goes on from step 4, on a thread of its own", _fork),
    "/quit": ("leaves; the thread stays", _quit),
}


def unfolded(result: Result) -> list[str]:
    """A call with all that came of it."""
    text = result.result.text
    if isinstance(result.result.data, dict | list) and text == compact(result.result.data):
        text = json.dumps(result.result.data, indent=2, ensure_ascii=False)
    return [f"→ {result.words}", *(f"  {line}" for line in readable(text).splitlines())]


def _number(text: str, otherwise: str) -> int:
    if not text.isdecimal() or not int(text):
        raise CallerError(otherwise)
    return int(text)
