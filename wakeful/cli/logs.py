"""The options of programs that run a worker, for how they log. It imports only what `--help` needs."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from wakeful.cli.terminal.colours import colours_of
from wakeful.cli.terminal.guarded_stream import let_colours_pass

FORMAT_VARIABLE = "WAKEFUL_LOG_FORMAT"
LEVEL_VARIABLE = "WAKEFUL_LOG_LEVEL"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogFormatOption = Annotated[
    LogFormat, typer.Option(envvar=FORMAT_VARIABLE, help="How to log, to stderr: lines of text, or of JSON.")
]
LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        envvar=LEVEL_VARIABLE, help="What to log. Only 'debug' shows messages of errors, which may quote conversations."
    ),
]


def log_to_stderr(level: LogLevel, format: LogFormat) -> None:
    """Log as the options say, also what Temporal's core logs, unless the app has configured logging itself."""
    from temporalio.runtime import Runtime, TelemetryConfig

    from wakeful.telemetry.log_format import core_logging, set_up_logging

    let_colours_pass()
    colours = colours_of(sys.stderr).on
    if set_up_logging(level, as_json=format is LogFormat.JSON, colours=colours) is not None:
        # An app may have made a runtime of its own when it was imported: its clients keep that.
        Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=core_logging())), error_if_already_set=False)
