"""How a command runs what it awaits: to its end or to Ctrl-C, and never waiting for what is left behind."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

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
