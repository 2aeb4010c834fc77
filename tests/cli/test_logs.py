"""What a worker's log line has: time, level, logger, message, and the fields of the record."""

import json
import logging
import sys

import pytest

from wakeful.cli.logs import JsonFormatter, LogLevel, TextFormatter, set_up_logging


def record(error: Exception | None = None) -> logging.LogRecord:
    fields = {"thread_id": "t 1", "count": 3, "temporal_activity": {"attempt": 1}}
    exc_info = (type(error), error, None) if error else None
    made = logging.getLogger("wakeful").makeRecord(
        "wakeful", logging.WARNING, __file__, 1, "orphan %s", ("cancelled",), exc_info, extra=fields
    )
    made.created, made.msecs = 1_700_000_000.25, 250.0
    return made


def test_a_line_ends_with_the_fields_of_the_record() -> None:
    line = TextFormatter().format(record())
    assert line.endswith(",250 WARNING wakeful orphan cancelled thread_id='t 1' count=3")


def test_a_traceback_follows_the_fields() -> None:
    lines = TextFormatter().format(record(ValueError("no"))).splitlines()
    assert lines[0].endswith("count=3")
    assert lines[-1] == "ValueError: no"


def test_a_json_line_has_the_fields_beside_the_message() -> None:
    assert json.loads(JsonFormatter().format(record(ValueError("no")))) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "wakeful",
        "message": "orphan cancelled",
        "thread_id": "t 1",
        "count": 3,
        "error": "ValueError: no",
    }


def test_an_app_that_has_configured_logging_keeps_its_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    root, own = logging.getLogger(), logging.StreamHandler(sys.stdout)
    monkeypatch.setattr(root, "handlers", [own])
    set_up_logging(LogLevel.DEBUG)
    assert root.handlers == [own]
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    set_up_logging(LogLevel.ERROR)
    assert (len(root.handlers), root.level) == (1, logging.ERROR)
