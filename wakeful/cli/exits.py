"""How a program of ours ends: expected failures in one clear line on stderr, never a traceback; and at once."""

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

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
