"""`wakeful replay`: the gate before a deploy. Do the histories of open runs replay on the code that is installed?"""

import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from temporalio.client import Client

from wakeful.cli import options
from wakeful.cli.terminal.render import printable
from wakeful.connection import Address, connect
from wakeful.contract.errors import WakefulError
from wakeful.history.replay import HistoryReplayer, Replayed, Source, file_source, query_sources, saving, thread_source
from wakeful.storage import data_converter

OPEN_RUNS = "ExecutionStatus = 'Running'"
PROGRESS_SECONDS = 2.0


@dataclass(frozen=True)
class Wanted:
    """Which histories are replayed, in this order: files, threads, and what a list query finds."""

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
        list[str] | None, typer.Argument(metavar="THREAD", help="Threads. [default: all open runs and tasks]")
    ] = None,
    open_runs: Annotated[bool, typer.Option("--open", help="All open runs, beside what else is named.")] = False,
    query: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Runs that this list query of Temporal's finds.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most so many of those found.")] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--file", metavar="PATH", help="A history in a file; may be repeated.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Every .json file in a directory.")
    ] = None,
    download: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep what is fetched, for --dir where there is no server.")
    ] = None,
    address: options.AddressOption = None,
    namespace: options.NamespaceOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Replay histories on the installed workflow code. Run it before a deploy: a run that breaks would get stuck.

    Exits with 0 if all of them replay, 1 if one does not, 2 if one could not be read or the call was wrong.
    """
    paths = tuple(files or ()) + (_in(directory) if directory else ())
    names = tuple(dict.fromkeys(threads or ()))
    wanted = Wanted(paths, names, _query(open_runs or not (names or paths or query), query), limit, download)
    if wanted.query is None and limit is not None:
        raise typer.BadParameter("it limits what --open or --query find", param_hint="--limit")
    if not wanted.needs_server and download is not None:
        raise typer.BadParameter("nothing is fetched: only files are named", param_hint="--download")
    # What the SDK says of a broken history is what we say ourselves, and it would come with a traceback.
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    try:
        outcomes = asyncio.run(_replayed(wanted, options.where(address, namespace), as_json=as_json))
    except WakefulError as error:  # 1 would say that a history is broken
        print(f"wakeful: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    if code := exit_code(outcomes):
        raise typer.Exit(code)


def exit_code(outcomes: Counter[str]) -> int:
    """A history that breaks says more than one that could not be read."""
    return 1 if outcomes["broken"] else 2 if outcomes["unread"] else 0


def replayed_lines(replayed: Replayed) -> list[str]:
    """How one history fared."""
    name = printable(replayed.source)
    if replayed.unread is not None:
        return [f"? {name}: {printable(replayed.unread)}"]
    size = f"{replayed.events} event{'' if replayed.events == 1 else 's'}"
    line = f"{'✗' if replayed.broke else '✓'} {name}  {replayed.workflow_type}, {size}"
    if replayed.broke is None:
        return [line]
    broke = replayed.broke
    return [
        f"{line}: breaks at event {broke.event_id}, {broke.event_type}",
        f"    history  {printable(broke.history)}",
        f"    code     {printable(broke.code)}",
        f"    {printable(broke.message)}",
    ]


def summary(outcomes: Counter[str]) -> str:
    """All of it in a line."""
    words = {"ok": "replay", "broken": "broken", "unread": "could not be read"}
    counted = ", ".join(f"{outcomes[each]} {word}" for each, word in words.items() if outcomes[each])
    return f"{outcomes.total()} histor{'y' if outcomes.total() == 1 else 'ies'}: {counted}"


async def _replayed(wanted: Wanted, where: Address, *, as_json: bool) -> Counter[str]:
    client = await connect(where) if wanted.needs_server else None
    converter = client.data_converter if client else await data_converter(os.environ)
    replaying = HistoryReplayer(converter, namespace=client.namespace if client else "replay")
    outcomes: Counter[str] = Counter()
    said = monotonic()
    async for replayed in replaying.all(_sources(wanted, client)):
        outcomes[replayed.outcome] += 1
        print(replayed.model_dump_json() if as_json else "\n".join(replayed_lines(replayed)), flush=True)
        if monotonic() - said > PROGRESS_SECONDS:
            said = monotonic()
            print(f"{summary(outcomes)} …", file=sys.stderr, flush=True)
    print(summary(outcomes) if outcomes else "nothing to replay", file=sys.stderr, flush=True)
    return outcomes


async def _sources(wanted: Wanted, client: Client | None) -> AsyncIterator[Source]:
    for path in wanted.files:
        yield file_source(path)
    if client is None:
        return
    async for source in _fetched(wanted, client):
        yield saving(source, wanted.download) if wanted.download else source


async def _fetched(wanted: Wanted, client: Client) -> AsyncIterator[Source]:
    for thread in wanted.threads:
        yield thread_source(client, thread)
    if wanted.query is not None:
        async for source in query_sources(client, wanted.query, limit=wanted.limit):
            if source.name not in wanted.threads:
                yield source


def _query(open_runs: bool, query: str | None) -> str | None:
    asked = [part for part in (OPEN_RUNS if open_runs else None, f"({query})" if query else None) if part]
    return " AND ".join(asked) or None


def _in(directory: Path) -> tuple[Path, ...]:
    paths = tuple(sorted(directory.glob("*.json")))
    if not paths:
        raise typer.BadParameter(f"there is no .json file in {str(directory)!r}", param_hint="--dir")
    return paths
