"""Where a person types in `wakeful chat`: messages of several lines, and answers to questions.

The prompt can be taken away when something happens on the thread; what was typed is kept for the next one. It knows
nothing of threads.
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

from wakeful.cli.terminal.live_view import SIGN

HINT = "Enter sends, Alt-Enter begins a new line, /help has more"
LEAVE_HINT = "Ctrl-D leaves"
UNFOLD = "/last"

STYLE = Style.from_dict({"sign": "ansicyan bold", "hint": "ansibrightblack", "ask": "ansiyellow"})


class Interrupted(Exception):
    """Ctrl-C at a question."""


class LeftPrompt(Exception):
    """Ctrl-D at an empty prompt."""


class Dismissed(Exception):
    """The prompt was taken away: something has happened."""


class Prompts:
    """A prompt for messages and one for answers; one of them at a time."""

    def __init__(self, commands: Sequence[str], *, colours: bool) -> None:
        self._depth = None if colours else ColorDepth.DEPTH_1_BIT
        self._hint = HINT
        self._kept = Document()
        self._messages: PromptSession[str] = PromptSession(
            [("class:sign", SIGN)],
            multiline=True,
            prompt_continuation=[("class:hint", "  ")],
            placeholder=self._placeholder,
            key_bindings=self._keys(),
            completer=Commands(commands),
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
        """What is typed until Enter. What is to be done `once_open` finds a prompt that can be taken away.

        Raises:
            LeftPrompt: Ctrl-D.
            Dismissed: the prompt was taken away.
        """
        kept, self._kept = self._kept, Document()
        return await self._ask(self._messages, default=kept, once_open=once_open)

    async def answer(self, words: str, *, default: str = "") -> str:
        """What is typed in answer to a question.

        Raises:
            Interrupted: Ctrl-C.
            LeftPrompt: Ctrl-D.
            Dismissed: the prompt was taken away.
        """
        session: PromptSession[str] = PromptSession(
            [("class:ask", words)],
            style=STYLE,
            color_depth=self._depth,
            interrupt_exception=Interrupted,
            eof_exception=LeftPrompt,
        )
        return await self._ask(session, default=Document(default))

    def forget_typed(self) -> None:
        """Nothing that was typed ahead may answer a question that nobody had read."""
        clear_typeahead(self._messages.input)
        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def dismiss(self) -> None:
        """Take the prompt away, if it is there; a message that is half typed comes back with the next."""
        session = self._open
        if session is None or not session.app.is_running or session.app.is_done:
            return
        if session is self._messages:
            self._kept = session.default_buffer.document
        session.app.erase_when_done = True
        session.app.exit(exception=Dismissed())

    @property
    def is_open(self) -> bool:
        return self._open is not None

    async def above(self, lines: Iterable[str]) -> None:
        """Print lines above the prompt that is there."""
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
        def begin_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        def clear(event: KeyPressEvent) -> None:
            self._hint = HINT if event.current_buffer.text else LEAVE_HINT
            event.current_buffer.reset()

        @keys.add("c-d", filter=Condition(lambda: not get_app().current_buffer.text))
        def leave(event: KeyPressEvent) -> None:
            event.app.erase_when_done = True  # or its hint would stay
            event.app.exit(exception=LeftPrompt())

        @keys.add("c-o")
        def unfold(event: KeyPressEvent) -> None:
            self._kept = event.current_buffer.document
            event.app.erase_when_done = True
            event.app.exit(result=UNFOLD)

        return keys


class Commands(Completer):
    """The commands that begin as the message does."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        typed = document.text_before_cursor
        if typed.startswith("/"):
            for command in self._commands:
                if command.startswith(typed):
                    yield Completion(command, start_position=-len(typed))


@contextlib.contextmanager
def unseen_keys() -> Iterator[None]:
    """While an answer is written, keys are kept for the next prompt and not shown. Ctrl-C still is a signal."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    unseen = termios.tcgetattr(fd)
    unseen[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)  # Enter has to be Enter to the next prompt
    unseen[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    termios.tcsetattr(fd, termios.TCSADRAIN, unseen)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
