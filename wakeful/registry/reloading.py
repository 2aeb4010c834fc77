"""Reload a registry's agent files when they change, or on SIGHUP.

Only files are reloaded: code that was imported stays as it is until the worker restarts.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from wakeful.authoring.a2a_source import A2aSource
from wakeful.authoring.agent import Agent
from wakeful.contract.errors import ConfigurationError
from wakeful.registry.registry import Registry

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Reloaded:
    """A new version is in force, with these changes."""

    version: int
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Names of sources that were added, changed or removed; their agents are discovered soon."""


@dataclass(frozen=True)
class Unchanged:
    """The files have no changes, so the version stays."""

    version: int


@dataclass(frozen=True)
class Refused:
    """The files have problems, so the old version stays in force."""

    version: int
    problems: tuple[str, ...]


ReloadOutcome = Reloaded | Unchanged | Refused
OnReload = Callable[[ReloadOutcome], None]


def reload(registry: Registry) -> ReloadOutcome:
    """Read the registry's agent files again, and put them in force if they have no problems."""
    try:
        fresh = registry.copy()
    except ConfigurationError as error:
        return Refused(registry.version, error.problems)
    except Exception as error:  # no file may stop a running worker
        return Refused(registry.version, (f"the agents cannot be read: {type(error).__name__}: {error}",))
    old, new = registry.agents, fresh.agents
    added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    changed = sorted(id for id in old.keys() & new.keys() if not _is_same(old[id], new[id]))
    one_sided = [source for source in (*registry.sources, *fresh.sources) if not _is_in_both(source, registry, fresh)]
    sources = sorted({source.name for source in one_sided})
    if not (added or changed or removed or sources):
        return Unchanged(registry.version)
    return Reloaded(registry.replace(fresh), tuple(added), tuple(changed), tuple(removed), tuple(sources))


def describe_outcome(outcome: ReloadOutcome) -> str:
    match outcome:
        case Reloaded():
            parts = {"added": outcome.added, "changed": outcome.changed, "removed": outcome.removed}
            parts["changed sources"] = outcome.sources
            what = "; ".join(f"{done} {', '.join(ids)}" for done, ids in parts.items() if ids)
            return f"agents reloaded, version {outcome.version} is in force: {what}"
        case Unchanged():
            return f"agents unchanged, version {outcome.version} stays in force"
        case Refused():
            problems = "".join(f"\n  {problem}" for problem in outcome.problems)
            return f"agents not reloaded, version {outcome.version} stays in force:{problems}"
        case _:
            assert_never(outcome)


@contextlib.asynccontextmanager
async def reloading_on_change(
    registry: Registry, on_reload: OnReload, *, every: float = POLL_SECONDS
) -> AsyncIterator[None]:
    """Reload the files when they change, if the registry has any, while the body runs."""
    polling = asyncio.create_task(_poll(registry, on_reload, every)) if registry.agent_files else None
    try:
        yield
    finally:
        if polling is not None:
            polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await polling


@contextlib.contextmanager
def reloading_on_hangup(registry: Registry, on_reload: OnReload) -> Iterator[None]:
    """Reload on SIGHUP, if the registry has files, while the body runs."""
    if not registry.agent_files:  # SIGHUP ends the process, as usual
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: on_reload(reload(registry)))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


async def _poll(registry: Registry, on_reload: OnReload, every: float) -> None:
    loaded: dict[Path, tuple[int, int]] | None = None
    previous = None
    while True:
        try:
            current = _fingerprints(registry)
        except OSError:  # a directory was removed meanwhile
            current = {}
        # Unchanged for one interval: an editor may still be writing the files.
        if current != loaded and current == previous:
            # The first time, too: they may have changed between the start of the worker and here.
            outcome, is_first = reload(registry), loaded is None
            loaded = current
            if not (is_first and isinstance(outcome, Unchanged)):
                on_reload(outcome)
        previous = current
        await asyncio.sleep(every)


def _fingerprints(registry: Registry) -> dict[Path, tuple[int, int]]:
    """Modification time and size of every file that may matter, also of those that no agent refers to yet."""
    files = (file for path in registry.agent_files for file in (path.rglob("*") if path.is_dir() else [path]))
    fingerprints = {}
    for file in {*files, *registry.files_read}:
        with contextlib.suppress(OSError):  # it was removed
            stat = file.stat()
            fingerprints[file] = (stat.st_mtime_ns, stat.st_size)
    return fingerprints


def _is_in_both(source: A2aSource, old: Registry, new: Registry) -> bool:
    return source in old.sources and source in new.sources


def _is_same(old: Agent, new: Agent) -> bool:
    """Whether their fields are equal, wherever they are written."""
    return dict(old) == dict(new)
