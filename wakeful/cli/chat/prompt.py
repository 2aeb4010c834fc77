"""Where a person types in `wakeful chat`: messages of several lines, and answers to questions.

A prompt can be dismissed when something happens on the thread; the next one restores what was typed. It knows no
threads.
"""

import contextlib
import sys
import termios
from collections.abc import Callable, Iterable, Iterator, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from wakeful.cli.terminal.guarded_stream import readable
from wakeful.cli.terminal.render import PROMPT

HINT = "Enter sends, Alt-Enter starts a new line, /help lists commands"
LEAVE_HINT = "Ctrl-D leaves"
PRINT_LAST_RESULT = "/last"

STYLE = Style.from_dict({"sign": "ansicyan bold", "hint": "ansibrightblack", "ask": "ansiyellow"})


class Interrupted(Exception):
    """Ctrl-C at a question."""


class LeftPrompt(Exception):
    """Ctrl-D at an empty prompt."""


class Dismissed(Exception):
    """The prompt was dismissed, because something happens on the thread."""


class Prompts:
    """A prompt for messages and one for answers; at most one is open."""

    def __init__(self, commands: Sequence[str], *, colours: bool) -> None:
        self._depth = None if colours else ColorDepth.DEPTH_1_BIT
        self._hint = HINT
        self._draft = Document()
        self._messages: PromptSession[str] = PromptSession(
            [("class:sign", PROMPT)],
            multiline=True,
            prompt_continuation=[("class:hint", "  ")],
            placeholder=self._placeholder,
            key_bindings=self._keys(),
            completer=SlashCommandCompleter(commands),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            history=InMemoryHistory(),
            style=STYLE,
            color_depth=self._depth,
            interrupt_exception=Interrupted,
            eof_exception=LeftPrompt,
        )
        self._open: PromptSession[str] | None = None

    async def message(self, *, once_open: Callable[[], None] = lambda: None) -> str:
        """The message that is typed until Enter. `once_open` is called when the prompt can be dismissed.

        Raises:
            LeftPrompt: Ctrl-D.
            Dismissed: the prompt was dismissed.
        """
        draft, self._draft = self._draft, Document()
        return await self._ask(self._messages, default=draft, once_open=once_open)

    async def answer(self, question: str, *, default: str = "") -> str:
        """The answer that is typed to a question.

        Raises:
            Interrupted: Ctrl-C.
            LeftPrompt: Ctrl-D.
            Dismissed: the prompt was dismissed.
        """
        session: PromptSession[str] = PromptSession(
            [("class:ask", readable(question))],
            style=STYLE,
            color_depth=self._depth,
            interrupt_exception=Interrupted,
            eof_exception=LeftPrompt,
        )
        return await self._ask(session, default=Document(default))

    def discard_typeahead(self) -> None:
        """Forget what was typed before the question was shown: it must not answer the question."""
        clear_typeahead(self._messages.input)
        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def dismiss(self) -> None:
        """Close the prompt, if it is open; the next one restores an unfinished message."""
        session = self._open
        if session is None or not session.app.is_running or session.app.is_done:
            return
        if session is self._messages:
            self._draft = session.default_buffer.document
        session.app.erase_when_done = True
        session.app.exit(exception=Dismissed())

    @property
    def is_open(self) -> bool:
        return self._open is not None

    async def print_above(self, lines: Iterable[str]) -> None:
        """Print lines above the open prompt."""
        await run_in_terminal(lambda: print("\n".join(lines), flush=True))

    async def _ask(
        self, session: PromptSession[str], *, default: Document, once_open: Callable[[], None] | None = None
    ) -> str:
        self._open, session.app.erase_when_done = session, False
        try:
            return await session.prompt_async(
                default=default, pre_run=once_open, set_exception_handler=False, handle_sigint=False
            )
        finally:
            self._open = None

    def _placeholder(self) -> StyleAndTextTuples:
        return [("class:hint", self._hint)]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def send(event: KeyPressEvent) -> None:
            if event.current_buffer.text.strip():
                self._hint = HINT
                event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("c-j")
        def start_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def clear(event: KeyPressEvent) -> None:
            self._hint = HINT if event.current_buffer.text else LEAVE_HINT
            event.current_buffer.reset()

        @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))
        def leave(event: KeyPressEvent) -> None:
            event.app.erase_when_done = True  # otherwise its hint would stay
            event.app.exit(exception=LeftPrompt())

        @keys.add("c-o")
        def print_last_result(event: KeyPressEvent) -> None:
            self._draft = event.current_buffer.document
            event.app.erase_when_done = True
            event.app.exit(result=PRINT_LAST_RESULT)

        return keys


class SlashCommandCompleter(Completer):
    """Completes slash commands."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        typed = document.text_before_cursor
        if typed.startswith("/"):
            for command in self._commands:
                if command.startswith(typed):
                    yield Completion(command, start_position=-len(typed))


@contextlib.contextmanager
def hidden_typing() -> Iterator[None]:
    """While an answer is written, hide what is typed and leave it for the next prompt. Ctrl-C still is a signal."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    hidden = termios.tcgetattr(fd)
    hidden[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)  # the next prompt must read Enter as Enter
    hidden[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    termios.tcsetattr(fd, termios.TCSADRAIN, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
