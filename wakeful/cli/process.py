"""How a program of ours ends: expected failures in one clear line on stderr, never a traceback; and at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from wakeful.contract.errors import WakefulError


def run_and_leave(program: Callable[[], None], *, name: str) -> NoReturn:
    """Run a program and end the process with its exit code."""
    code: str | int | None = 0
    try:
        program()
    except SystemExit as exit:
        code = exit.code
    except WakefulError as error:
        for line in str(error).splitlines():
            print(f"{name}: {line}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        leave_unread()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        leave_unread()
    # Not sys.exit: Temporal's native threads may still hold a long poll, and abort an interpreter that shuts down.
    os._exit(code if isinstance(code, int) else 1 if code else 0)


def leave_unread() -> NoReturn:
    """End at once, as a program does that SIGPIPE ends: whoever read what it prints has gone, such as `head`."""
    os._exit(128 + signal.SIGPIPE)


T = TypeVar("T")

GRACE_SECONDS = 1.0


def run(doing: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, or until Ctrl-C.

    Not asyncio.run: that waits until every task has ended, and a call to Temporal that is cancelled at the wrong moment
    never does (SDK 1.35). Our programs leave the process at once anyway.

    Raises:
        KeyboardInterrupt: Ctrl-C, once what was under way has had a moment to put the screen in order.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(doing)
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
