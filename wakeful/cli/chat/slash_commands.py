"""The slash commands of `wakeful chat`; most do what the `wakeful` command of the same name does."""

import json
import textwrap
from collections.abc import Awaitable, Callable
from time import time
from typing import Protocol

from wakeful.cli.terminal.call_lines import ShownResult
from wakeful.cli.terminal.guarded_stream import readable
from wakeful.cli.terminal.live_view import LiveView
from wakeful.cli.terminal.status_lines import related_lines, status_lines
from wakeful.cli.terminal.text import compact, printable
from wakeful.cli.terminal.tree_lines import tree_lines
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError

KEYS = (
    ("Enter", "sends; Alt-Enter or Ctrl-J starts a new line"),
    ("Ctrl-C", "clears what you typed; while an answer arrives, cancels the run, but not the thread"),
    ("Ctrl-O", "prints the newest tool result in full"),
    ("Ctrl-D", "leaves; the thread stays"),
)


class Chat(Protocol):
    """The conversation that a slash command is typed in."""

    client: Client
    view: LiveView

    @property
    def thread_id(self) -> str: ...

    async def fork(self, step: int, message: str | None) -> None: ...

    def leave(self) -> None: ...


SlashCommand = Callable[[Chat, str], Awaitable[None]]


async def run_slash_command(chat: Chat, typed: str) -> None:
    """Run what was typed.

    Raises:
        CallerError: there is no such command, or its argument is wrong.
    """
    name, _, rest = typed.partition(" ")
    if name not in SLASH_COMMANDS:
        raise CallerError(f"there is no command {name}: /help lists them; begin with a space to send it as a message")
    await SLASH_COMMANDS[name][1](chat, rest.strip())


async def _help(chat: Chat, _rest: str) -> None:
    for name, help in [*((name, help) for name, (help, _) in SLASH_COMMANDS.items()), *KEYS]:
        chat.view.line(f"  {name:<9} {chat.view.screen.colours.dim(help)}")


async def _status(chat: Chat, _rest: str) -> None:
    status = await chat.client.status(chat.thread_id)
    for line in [*status_lines(chat.thread_id, status), *related_lines(chat.thread_id, status)]:
        chat.view.line(f"  {chat.view.screen.colours.labelled(readable(line))}")


async def _why(chat: Chat, _rest: str) -> None:
    found = await chat.client.why(chat.thread_id)
    for line in textwrap.wrap(printable(found.text), chat.view.screen.columns - 1, break_on_hyphens=False):
        chat.view.screen.line(line)


async def _tree(chat: Chat, _rest: str) -> None:
    root = await chat.client.tree(chat.thread_id)
    for line in tree_lines(root, now=int(time() * 1000), colours=chat.view.screen.colours.on):
        chat.view.line(line)


async def _last(chat: Chat, rest: str) -> None:
    number = _parse_number(rest or "1", "/last takes the number of results to print")
    for result in list(chat.view.results)[-number:]:
        for line in full_result_lines(result):
            chat.view.line(line)
    if not chat.view.results:
        chat.view.line("· no tool was called yet")


async def _fork(chat: Chat, rest: str) -> None:
    step, _, message = rest.partition(" ")
    usage = "/fork takes the step to fork after, as `wakeful show` counts, and the next message"
    await chat.fork(_parse_number(step, usage), message.strip() or None)


async def _quit(chat: Chat, _rest: str) -> None:
    chat.leave()


SLASH_COMMANDS: dict[str, tuple[str, SlashCommand]] = {
    "/help": ("lists commands and keys", _help),
    "/status": ("shows what the thread is doing and what it waits for", _status),
    "/why": ("explains why the thread is not making progress", _why),
    "/tree": ("shows sub-agents and background tasks", _tree),
    "/last": ("prints the newest tool result in full; /last 3 the newest three", _last),
    "/fork": ("/fork 4 And in winter? forks the thread after step 4 and continues there", _fork),
    "/quit": ("leaves; the thread stays", _quit),
}


def full_result_lines(result: ShownResult) -> list[str]:
    """A call with its whole result."""
    text = result.result.text
    if isinstance(result.result.data, dict | list) and text == compact(result.result.data):
        text = json.dumps(result.result.data, indent=2, ensure_ascii=False)
    return [f"→ {result.call}", *(f"  {line}" for line in readable(text).splitlines())]


def _parse_number(text: str, usage: str) -> int:
    if not text.isdecimal() or not int(text):
        raise CallerError(usage)
    return int(text)
