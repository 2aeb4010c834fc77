"""How the programs that run a worker log: time, level, logger, message, and the fields that a record has in `extra`.

An app that configures logging when it is imported keeps its own handlers and its own level.
"""

import json
import logging
import sys
import time
from collections.abc import Mapping
from enum import StrEnum

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_TEMPORAL = "temporal_"
"""Begins the names of fields that Temporal's loggers also write into the message."""


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def set_up_logging(level: LogLevel, *, as_json: bool = False) -> None:
    """Log to stderr from this level on, unless the root logger has a handler already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])


class TextFormatter(logging.Formatter):
    """`2026-11-17 05:40:07,656 WARNING wakeful thread abandoned code='tool fetch' abandoned=3`, then the traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return " ".join([super().formatMessage(record), *(f"{key}={value!r}" for key, value in _extra(record).items())])


class JsonFormatter(logging.Formatter):
    """One JSON object per line; the fields of `extra` are beside the others."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{at}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _extra(record: logging.LogRecord) -> Mapping[str, object]:
    fields = vars(record).items()
    return {key: value for key, value in fields if key not in _STANDARD and not key.startswith(_TEMPORAL)}
