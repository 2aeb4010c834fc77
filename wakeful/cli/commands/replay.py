"""`wakeful replay`: before a deploy, check that the histories of open runs replay on the installed code."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from wakeful.cli import completion, options
from wakeful.contract.names import WORKFLOW

if TYPE_CHECKING:
    from temporalio.client import Client as TemporalClient
    from temporalio.converter import DataConverter

    from wakeful.connection import Address
    from wakeful.history.replay import Source

OPEN_RUNS = "ExecutionStatus = 'Running'"
CLOSED_THREADS = (
    f"WorkflowType = '{WORKFLOW}' AND ExecutionStatus IN ('Completed', 'Failed', 'Canceled', 'Terminated', 'TimedOut')"
)
"""Not those that have continued as new: a wake starts from the newest execution."""
PROGRESS_SECONDS = 2.0


@dataclass(frozen=True)
class Selection:
    """Which histories are replayed, in this order: files, threads, and the results of a list query."""

    files: tuple[Path, ...] = ()
    threads: tuple[str, ...] = ()
    query: str | None = None
    limit: int | None = None
    download: Path | None = None

    @property
    def needs_server(self) -> bool:
        return bool(self.threads) or self.query is not None


def replay(
    threads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="THREAD",
            help="Threads to replay. [default: all open runs and tasks]",
            autocompletion=completion.complete_thread,
        ),
    ] = None,
    open_runs: Annotated[bool, typer.Option("--open", help="Replay all open runs, too.")] = False,
    closed_days: Annotated[
        float | None,
        typer.Option("--closed", min=0, metavar="DAYS", help="Replay the threads that closed in the last DAYS, too."),
    ] = None,
    query: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Replay the runs that this Temporal list filter finds.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="At most N of --open, --closed and --query.")
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--file", metavar="PATH", help="A file with a history. Repeatable.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Every .json file in a directory.")
    ] = None,
    download: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save fetched histories, for --dir where there is no server.")
    ] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    client_factory: options.ClientOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Replay histories on the installed code, before a deploy.

    A run whose history does not replay would get stuck. A closed thread is read by replay when it is woken: the command
    says what a wake of it would continue with. Exits with 0 if all histories replay, 1 if one does not, 2 if
    one could not be read or the command was wrong.
    """
    from wakeful.connection import Address
    from wakeful.contract.errors import WakefulError

    paths = tuple(files or ()) + (_json_files(directory) if directory else ())
    names = tuple(dict.fromkeys(threads or ()))
    scopes = (
        *([OPEN_RUNS] if open_runs or not (names or paths or query or closed_days is not None) else []),
        *([closed_since(closed_days)] if closed_days is not None else []),
    )
    selection = Selection(paths, names, _filter(scopes, query), limit, download)
    if selection.query is None and limit is not None:
        raise typer.BadParameter("it limits what --open, --closed or --query find", param_hint="--limit")
    if not selection.needs_server and download is not None:
        raise typer.BadParameter("nothing is fetched: only files are named", param_hint="--download")
    # We print what the SDK logs about a broken history, which would come with a traceback.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    try:
        where = Address(address=address, namespace=namespace, client=client_factory)
        outcomes = asyncio.run(_replay_all(selection, where, as_json=as_json))
    except WakefulError as error:  # 1 would mean that a history is broken
        print(f"wakeful: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    if code := exit_code(outcomes):
        raise typer.Exit(code)


def exit_code(outcomes: Counter[str]) -> int:
    """A broken history counts more than one that could not be read."""
    return 1 if outcomes["broken"] else 2 if outcomes["unread"] else 0


async def _replay_all(selection: Selection, where: Address, *, as_json: bool) -> Counter[str]:
    from wakeful.cli.terminal.replay_lines import replay_summary, replayed_lines
    from wakeful.connection import connect
    from wakeful.history.replay import HistoryReplayer

    client = await connect(where) if selection.needs_server else None
    converter = client.data_converter if client else await _converter_for_files(where)
    replaying = HistoryReplayer(converter, namespace=client.namespace if client else "replay")
    outcomes: Counter[str] = Counter()
    reported = monotonic()
    async for replayed in replaying.all(_sources(selection, client)):
        outcomes[replayed.outcome] += 1
        print(replayed.model_dump_json() if as_json else "\n".join(replayed_lines(replayed)), flush=True)
        if monotonic() - reported > PROGRESS_SECONDS:
            reported = monotonic()
            print(f"{replay_summary(outcomes)} …", file=sys.stderr, flush=True)
    print(replay_summary(outcomes) if outcomes else "nothing to replay", file=sys.stderr, flush=True)
    return outcomes


async def _converter_for_files(where: Address) -> DataConverter:
    """That of the client factory; without one, Wakeful's own."""
    from wakeful.client_factory import call_factory
    from wakeful.connection import factory_of
    from wakeful.storage import data_converter

    factory = factory_of(where)
    return (await call_factory(factory, where.given)).data_converter if factory else await data_converter(os.environ)


async def _sources(selection: Selection, client: TemporalClient | None) -> AsyncIterator[Source]:
    from wakeful.history.replay import file_source, saving

    for path in selection.files:
        yield file_source(path)
    if client is None:
        return
    async for source in _fetched(selection, client):
        yield saving(source, selection.download) if selection.download else source


async def _fetched(selection: Selection, client: TemporalClient) -> AsyncIterator[Source]:
    from wakeful.history.replay import query_sources, thread_source

    for thread in selection.threads:
        yield thread_source(client, thread)
    if selection.query is not None:
        async for source in query_sources(client, selection.query, limit=selection.limit):
            if source.name not in selection.threads:
                yield source


def closed_since(days: float) -> str:
    """The list filter for threads that closed in the last days."""
    since = datetime.now(UTC) - timedelta(days=days)
    return f"({CLOSED_THREADS} AND CloseTime > '{since.isoformat()}')"


def _filter(scopes: Sequence[str], query: str | None) -> str | None:
    scope = f"({' OR '.join(scopes)})" if scopes else None
    return " AND ".join(part for part in (scope, f"({query})" if query else None) if part) or None


def _json_files(directory: Path) -> tuple[Path, ...]:
    paths = tuple(sorted(directory.glob("*.json")))
    if not paths:
        raise typer.BadParameter(f"there is no .json file in {str(directory)!r}", param_hint="--dir")
    return paths
