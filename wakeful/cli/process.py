"""How our programs run and exit: an expected failure is one clear line on stderr, never a traceback."""

import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from wakeful.cli.terminal.guarded_stream import guard_streams


def run_and_leave(program: Callable[[], None], *, name: str) -> NoReturn:
    """Run a program and end the process with its exit code."""
    code: str | int | None = 0
    guard_streams()
    try:
        program()
    except SystemExit as exit:
        code = exit.code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        exit_broken_pipe()
    except UnicodeEncodeError as error:  # of an argument: Python keeps bytes that are not UTF-8 as halves of surrogates
        print(f"{name}: {error.object!r} is not valid text: write it in UTF-8", file=sys.stderr)
        code = 1
    except Exception as error:
        if not _is_expected(error):
            raise
        for line in str(error).splitlines():
            print(f"{name}: {line}", file=sys.stderr)
        code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        exit_broken_pipe()
    # Not sys.exit: Temporal's native threads may still hold a long poll, and abort an interpreter that shuts down.
    os._exit(code if isinstance(code, int) else 1 if code else 0)


def exit_broken_pipe() -> NoReturn:
    """Exit as SIGPIPE would make the program exit: the reader of its output, such as `head`, has gone."""
    os._exit(128 + signal.SIGPIPE)


def _is_expected(error: Exception) -> bool:
    from wakeful.contract.errors import WakefulError  # here, because `--help` must not import pydantic

    return isinstance(error, WakefulError)


T = TypeVar("T")

GRACE_SECONDS = 1.0


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine until it returns, or until Ctrl-C.

    Not asyncio.run: that waits until every task has ended, and an RPC to Temporal that is cancelled at the wrong moment
    never does (SDK 1.35). Our programs exit at once anyway.

    Raises:
        KeyboardInterrupt: Ctrl-C, after the coroutine has had a moment to clean up the screen.
    """
    import asyncio

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(coroutine)
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()
        loop.call_later(GRACE_SECONDS, loop.stop)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return loop.run_until_complete(task)
    except (asyncio.CancelledError, RuntimeError):
        if interrupted:
            raise KeyboardInterrupt from None
        raise
