"""Small sizes: in a simulated world, threads of a few messages are archived."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import wakeful_activities.archive as archive
import wakeful_activities.restore as restore
import wakeful_workflows.archives as archives
import wakeful_workflows.continue_as_new as continue_as_new


@contextmanager
def carrying(bytes: int) -> Iterator[None]:
    """Threads carry so much along when they continue as new, close, or are restored."""
    with (
        patch.object(continue_as_new, "TAILS", (bytes, 0)),
        patch.object(restore, "TAIL_BYTES", bytes),
        patch.object(archive, "TAIL_BYTES", bytes),
        patch.object(archives, "UNARCHIVED_BYTES", bytes),
    ):
        yield
