"""Small sizes: in a simulated world, threads of a few messages are archived."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import wakeful.loop.thread.continue_as_new as snapshots
import wakeful_activities.restore as restore
import wakeful_workflows.archives as archives

_CARRIED = ((snapshots, "TAIL_BYTES"), (restore, "TAIL_BYTES"), (archives, "UNARCHIVED_BYTES"))


@contextmanager
def carrying(bytes: int) -> Iterator[None]:
    """Threads carry so much along when they continue as new, or are restored."""
    with ExitStack() as stack:
        for module, name in _CARRIED:
            stack.enter_context(patch.object(module, name, bytes))
        yield
