"""The log of a worker, as `wakeful worker --log-format json` writes it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from wakeful.telemetry.log_format import set_up_logging


class Log:
    """What was logged, line by line."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def lines(self, thread_id: str) -> list[dict[str, Any]]:
        """The lines about a thread."""
        written = map(json.loads, self.text.splitlines())
        return [line for line in written if line.get("thread_id") == thread_id]

    def named(self, thread_id: str, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines(thread_id) if line["message"] == message]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    root, stream = logging.getLogger(), io.StringIO()
    monkeypatch.setattr(root, "level", root.level)
    handlers, root.handlers = root.handlers, []
    handler = set_up_logging("info", as_json=True, stream=stream)
    assert handler is not None
    root.handlers = [*handlers, handler]
    yield Log(stream)
    root.removeHandler(handler)
