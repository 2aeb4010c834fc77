"""How the programs that run a worker log: one line per record, as text or as JSON, with the fields of its run.

A line of ours or of Temporal's SDK names the error that it is about, and where that was raised, but not the error's
message, which may quote a conversation; `is_full`, for the level `debug`, shows that, too. Lines of users' own loggers
are shown as they are.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from temporalio import activity, workflow
from temporalio.runtime import LogForwardingConfig, LoggingConfig, TelemetryFilter

from wakeful.telemetry.log_causes import cause_of, frames_of
from wakeful.telemetry.log_fields import FIELDS, LogFields

OWN = "wakeful"
_SDK = "temporalio"
_CORE = f"{_SDK}.core"

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OF_SDK = re.compile("_*temporal_")
"""Begins the names of fields that Temporal's loggers set for themselves."""
_CORE_FIELDS = ("workflow_id", "run_id", "task_queue", "namespace", "error")
"""What is shown of a record of Temporal's core; others contain whole failures and completions."""
_CORE_LENGTH = 300
_CORE_INTERVAL_SECONDS = 60
"""Between two lines of core that differ in numbers alone: while Temporal is away, it writes one for each retry."""
_STATUS = re.compile(r'Status \{ code: (\w+), message: "((?:[^"\\]|\\.)*)"')
"""How core shows an error of a call to Temporal, before its details and sources."""
_BARE = re.compile(r"[^\s\"'=]+")

_RESET, _DIM, _RED, _YELLOW = "\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[33m"


def set_up_logging(
    level: str, *, as_json: bool = False, colours: bool = False, stream: TextIO | None = None
) -> logging.Handler | None:
    """Log to stderr from this level on. If the root logger has handlers already, they only learn of the run's fields.

    Returns:
        The handler, unless there was one.
    """
    root = logging.getLogger()
    if root.handlers:
        for handler in root.handlers:
            handler.addFilter(LogFields())
        return None
    is_full = level.upper() == "DEBUG"
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(is_full=is_full) if as_json else TextFormatter(is_full=is_full, colours=colours))
    handler.addFilter(LogFields())
    handler.addFilter(is_news)
    handler.addFilter(Unrepeated())
    root.addHandler(handler)
    root.setLevel(level.upper())
    # Their lines have the fields that these would write into the message.
    workflow.logger.workflow_info_on_message = activity.logger.activity_info_on_message = False
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request, with its URL
    return handler


def core_logging() -> LoggingConfig:
    """Of Temporal's core: its warnings become records of Python's logging. By default it writes them to stderr."""
    logger = logging.getLogger(_CORE)
    forwarding = LogForwardingConfig(
        logger, append_target_to_name=False, prepend_target_on_message=False, append_log_fields_to_message=False
    )
    return LoggingConfig(filter=TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding=forwarding)


def is_news(record: logging.LogRecord) -> bool:
    """Whether a record is not one of the SDK's that repeats what a line of ours says: that an attempt failed."""
    return getattr(record, "__temporal_error_identifier", None) != "ActivityFailure" or record.levelno < logging.WARNING


class Unrepeated(logging.Filter):
    """Lets what core repeats through once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[tuple[str, ...], float] = {}
        """When each line was shown last; of the last minute alone."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name != _CORE:
            return True
        self._shown = {line: at for line, at in self._shown.items() if record.created - at < _CORE_INTERVAL_SECONDS}
        about = (str(value) for name, value in _core_fields(record).items() if name != "error")
        line = (re.sub(r"\d+", "", record.getMessage()), *about)
        is_new = line not in self._shown
        self._shown.setdefault(line, record.created)
        return is_new


class TextFormatter(logging.Formatter):
    """`2026-11-17 05:40:07.656 INFO    run ended  outcome=natural steps=2  thread_id=t1 run_id=… agent_id=buyer`."""

    def __init__(self, *, is_full: bool = False, colours: bool = False) -> None:
        super().__init__()
        self._is_full = is_full
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        line = _Line(record, is_full=self._is_full)
        source = f"{record.name}: " if line.is_foreign else ""
        head = (
            self._painted(f"{at}.{int(record.msecs):03}", _DIM),
            self._painted(f"{record.levelname:7}", _level_colour(record.levelno)),
            f"{source}{line.message}",
        )
        parts = (" ".join(head), _listed(line.own), self._painted(_listed(line.about), _DIM))
        return "\n".join(filter(None, ("  ".join(filter(None, parts)), line.traceback)))

    def _painted(self, text: str, code: str) -> str:
        return f"{code}{text}{_RESET}" if self._colours and code and text else text


class JsonFormatter(logging.Formatter):
    """One JSON object per line; the record's own fields and those of its run are beside the others."""

    def __init__(self, *, is_full: bool = False) -> None:
        super().__init__()
        self._is_full = is_full

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = _Line(record, is_full=self._is_full)
        written: dict[str, object] = {
            "time": f"{at}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": line.message,
            **line.own,
            **line.about,
        }
        if line.traceback:
            written["traceback"] = line.traceback
        return json.dumps(written, default=str, ensure_ascii=False)


class _Line:
    """What is shown of a record."""

    def __init__(self, record: logging.LogRecord, *, is_full: bool) -> None:
        self.message = record.getMessage()
        fields = {key: value for key, value in vars(record).items() if _is_shown(key)}
        self.about = {name: fields.pop(name) for name in FIELDS if name in fields}
        self.own: dict[str, object] = {**fields, **_core_fields(record)}
        if record.name == OWN and "cause" in fields:
            self.message = self.message.removesuffix(f": {fields['cause']}")  # it has a field of its own
        self.is_foreign = record.name != OWN
        self.traceback = ""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        if is_full or not _is_of_runtime(record.name):
            self.traceback = logging.Formatter().formatException((type(error), error, error.__traceback__))
            return
        self.own["cause"] = cause_of(error)
        self.traceback = frames_of(error) if record.levelno >= logging.ERROR else ""


def _is_shown(key: str) -> bool:
    return key not in _STANDARD and not _OF_SDK.match(key)


def _is_of_runtime(logger: str) -> bool:
    return logger.partition(".")[0] in (OWN, _SDK)


def _core_fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields = getattr(getattr(record, "temporal_log", None), "fields", {})
    return {name: _core_text(str(fields[name])) for name in _CORE_FIELDS if name in fields}


def _core_text(text: str) -> str:
    """What a field says: of an error of a call to Temporal, its code and message."""
    status = _STATUS.match(text)
    return (f"{status[1]}: {status[2]}" if status else text)[:_CORE_LENGTH]


def _listed(fields: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_shown(value)}" for name, value in fields.items())


def _shown(value: object) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) and text.isprintable() else json.dumps(text, ensure_ascii=False)


def _level_colour(level: int) -> str:
    return _RED if level >= logging.ERROR else _YELLOW if level >= logging.WARNING else ""
