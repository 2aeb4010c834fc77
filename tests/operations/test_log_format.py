"""What a log line has: time, level, message, the fields of the record and of its run; and what it never has."""

import io
import json
import logging
import re
import sys
import time
from types import SimpleNamespace

import pytest
from temporalio.exceptions import ApplicationError

from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.telemetry.log_causes import cause_of, log_failure
from wakeful.telemetry.log_fields import LogFields
from wakeful.telemetry.log_format import (
    JsonFormatter,
    TextFormatter,
    Unrepeated,
    core_logging,
    is_news,
    set_up_logging,
)

SECRET = "hunter2"


def record(error: Exception | None = None, *, name: str = "wakeful", level: int = logging.WARNING) -> logging.LogRecord:
    fields = {"run_id": "r-1", "thread_id": "t 1", "count": 3, "temporal_activity": {"attempt": 1}}
    exc_info = (type(error), error, error.__traceback__) if error else None
    made = logging.getLogger(name).makeRecord(
        name, level, __file__, 1, "orphan %s", ("cancelled",), exc_info, extra=fields
    )
    made.created, made.msecs = 1_700_000_000.25, 250.0
    return made


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The root logger, which is as before after the test."""
    logger = logging.getLogger()
    monkeypatch.setattr(logger, "handlers", logger.handlers)
    monkeypatch.setattr(logger, "level", logger.level)
    return logger


@pytest.mark.usefixtures("utc")
def test_a_line_of_text_has_the_message_then_its_own_fields_then_those_of_its_run() -> None:
    line = TextFormatter().format(record())
    assert line == '2023-11-14 22:13:20.250 WARNING orphan cancelled  count=3  thread_id="t 1" run_id=r-1'


def test_a_line_of_another_logger_names_it() -> None:
    assert " WARNING shop: orphan cancelled  count=3" in TextFormatter().format(record(name="shop"))


def test_on_a_terminal_the_level_is_coloured_and_the_run_is_dim() -> None:
    line = TextFormatter(colours=True).format(record())
    assert '\x1b[33mWARNING\x1b[0m orphan cancelled  count=3  \x1b[2mthread_id="t 1" run_id=r-1\x1b[0m' in line


def test_a_json_line_has_the_fields_beside_the_message() -> None:
    assert json.loads(JsonFormatter().format(record())) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "wakeful",
        "message": "orphan cancelled",
        "count": 3,
        "thread_id": "t 1",
        "run_id": "r-1",
    }


@pytest.mark.parametrize("name", ["wakeful", "temporalio.worker._workflow_instance"])
def test_lines_of_the_runtime_name_an_error_and_its_place_but_not_its_message(name: str) -> None:
    error = raised(KeyError(SECRET))
    text, line = TextFormatter().format(record(error, name=name)), JsonFormatter().format(record(error, name=name))
    assert "\n" not in text
    assert SECRET not in text + line
    assert json.loads(line)["cause"].startswith("KeyError at test_log_format.py:")


def test_an_error_of_the_runtime_also_shows_its_frames() -> None:
    first, *frames = TextFormatter().format(record(raised(KeyError(SECRET)), level=logging.ERROR)).splitlines()
    assert "cause=" in first
    assert "in raised" in frames[0]
    assert SECRET not in "\n".join(frames)


@pytest.mark.parametrize(("name", "is_full"), [("shop", False), ("wakeful", True)])
def test_lines_of_users_and_of_the_level_debug_have_the_whole_traceback(name: str, is_full: bool) -> None:
    lines = TextFormatter(is_full=is_full).format(record(raised(KeyError(SECRET)), name=name)).splitlines()
    assert lines[-1] == f"KeyError: '{SECRET}'"


def test_a_cause_is_the_kind_of_a_provider_s_failure_with_its_status_however_it_is_wrapped() -> None:
    translated = ApplicationError(f"no: {SECRET}", type="rate_limited")
    translated.__context__ = ProviderError(ProviderErrorKind.RATE_LIMITED, f"no: {SECRET}", status=429)
    assert cause_of(translated) == "rate_limited (429)"
    broken = ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, "no", cause="connection reset")
    assert cause_of(broken) == "stream_interrupted (connection reset)"


def test_a_cause_names_the_error_that_another_one_was_raised_from() -> None:
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError(SECRET) from raised(ValueError(SECRET))
    first, second = cause_of(caught.value).split(", because of ")
    assert first.startswith("RuntimeError at test_log_format.py:")
    assert second.startswith("ValueError at test_log_format.py:")


def test_a_failure_is_one_line_and_its_traceback_another_at_the_level_debug(root: logging.Logger) -> None:
    stream = io.StringIO()
    root.handlers = []  # pytest has added its own
    set_up_logging("info", stream=stream)
    log_failure(logging.getLogger("wakeful"), "tool raised", raised(KeyError(SECRET)), extra={"tool": "pay"})
    assert len(stream.getvalue().splitlines()) == 1
    assert "WARNING tool raised  tool=pay cause=" in stream.getvalue()
    assert SECRET not in stream.getvalue()
    root.handlers = []
    set_up_logging("debug", stream=stream)
    log_failure(logging.getLogger("wakeful"), "tool raised", raised(KeyError(SECRET)), extra={"tool": "pay"})
    assert stream.getvalue().splitlines()[-1] == f"KeyError: '{SECRET}'"


def test_a_program_that_has_not_configured_logging_sees_why_something_failed(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    root.handlers = []
    log_failure(logging.getLogger("wakeful"), "tool raised", raised(KeyError(SECRET)), extra={"tool": "pay"})
    assert re.fullmatch(r"tool raised: KeyError at test_log_format\.py:\d+ in \w+\n", capsys.readouterr().err)


def test_an_app_that_has_configured_logging_keeps_its_handlers_which_learn_the_fields_of_runs(
    root: logging.Logger,
) -> None:
    own = logging.StreamHandler(sys.stdout)
    root.handlers = [own]
    assert set_up_logging("debug") is None
    assert (root.handlers, [type(each) for each in own.filters]) == ([own], [LogFields])


def test_logging_is_set_up_on_stderr_at_a_level_and_without_a_line_for_each_http_request(root: logging.Logger) -> None:
    root.handlers = []  # pytest has added its own
    handler = set_up_logging("error")
    assert isinstance(handler, logging.StreamHandler)
    assert (root.handlers, root.level, handler.stream) == ([handler], logging.ERROR, sys.stderr)
    assert not logging.getLogger("httpx").isEnabledFor(logging.INFO)


def test_what_the_sdk_logs_of_a_failed_attempt_is_not_repeated() -> None:
    ours, theirs = record(), record(name="temporalio.activity")
    setattr(theirs, "__temporal_error_identifier", "ActivityFailure")
    assert (is_news(ours), is_news(theirs)) == (True, False)


def test_warnings_of_temporal_s_core_are_records_that_show_no_failure_they_carry(root: logging.Logger) -> None:
    class Entry:
        """As the SDK hands it over."""

        target, message, time, level = "core::worker", "Failing workflow task", 1_700_000_000.25, logging.WARNING
        fields = {"run_id": "r-1", "failure": SECRET, "task_queue": "wakeful"}

    stream = io.StringIO()
    root.handlers = []  # pytest has added its own
    set_up_logging("info", as_json=True, stream=stream)
    forwarding = core_logging().forwarding
    assert forwarding is not None
    forwarding._on_logs([Entry()])
    assert json.loads(stream.getvalue()) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "warning",
        "logger": "temporalio.core",
        "message": "Failing workflow task",
        "run_id": "r-1",
        "task_queue": "wakeful",
    }


def core_line(message: str, at: float, **fields: str) -> logging.LogRecord:
    """A record as the SDK makes it of what core logs."""
    about = {"name": "temporalio.core", "levelno": logging.WARNING, "levelname": "WARNING"}
    record = logging.makeLogRecord({**about, "msg": message, "created": at})
    record.temporal_log = SimpleNamespace(fields=fields)
    return record


def test_what_temporal_s_core_repeats_is_shown_once_a_minute() -> None:
    """While Temporal is away, core writes a line for every retry of every poll."""
    unrepeated = Unrepeated()
    lines = [
        core_line("gRPC call poll retried 5 times", 0.0, error="refused"),
        core_line("gRPC call poll retried 6 times", 0.0, error="reset"),
        core_line("gRPC call count retried 6 times", 1.0),
        core_line("Failing workflow task", 2.0, run_id="r-1"),
        core_line("Failing workflow task", 3.0, run_id="r-2"),
        core_line("gRPC call poll retried 14 times", 59.0),
        core_line("gRPC call poll retried 15 times", 60.0),
        logging.makeLogRecord({"name": "shop", "msg": "packing"}),
        logging.makeLogRecord({"name": "shop", "msg": "packing"}),
    ]
    assert [unrepeated.filter(line) for line in lines] == [True, False, True, True, True, False, True, True, True]


def test_an_error_of_a_call_to_temporal_is_its_code_and_message() -> None:
    error = 'Status { code: Unavailable, message: "tcp connect error", source: Some(tonic::transport::Error(…)) }'
    line = TextFormatter().format(core_line("gRPC call poll retried 5 times", 0.0, error=error))
    assert line.endswith('gRPC call poll retried 5 times  error="Unavailable: tcp connect error"')
