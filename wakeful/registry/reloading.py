"""A registry that follows its agent files: they are read again when they change, or when the process is told to.

Only files: code that has been imported stays as it is until the worker starts again.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from wakeful.authoring.agent import Agent
from wakeful.contract.errors import ConfigurationError
from wakeful.registry.registry import Registry

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Reloaded:
    """A new version is in force; these agents are other than before."""

    version: int
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unchanged:
    """The files say what they said before, so the version stays."""

    version: int


@dataclass(frozen=True)
class Refused:
    """Something is wrong, so the old version stays in force."""

    version: int
    problems: tuple[str, ...]


Outcome = Reloaded | Unchanged | Refused
Tell = Callable[[Outcome], None]


def reload(registry: Registry) -> Outcome:
    """Read the registry's agent files again, and put them in force if nothing is wrong with them."""
    try:
        fresh = registry.copy()
    except ConfigurationError as error:
        return Refused(registry.version, error.problems)
    except Exception as error:  # whatever is in the files, the worker goes on with what it has
        return Refused(registry.version, (f"the agents cannot be read: {type(error).__name__}: {error}",))
    old, new = registry.agents, fresh.agents
    added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    changed = sorted(id for id in old.keys() & new.keys() if not _is_same(old[id], new[id]))
    if not (added or changed or removed):
        return Unchanged(registry.version)
    return Reloaded(registry.replace(fresh), tuple(added), tuple(changed), tuple(removed))


def in_words(outcome: Outcome) -> str:
    match outcome:
        case Reloaded():
            parts = {"added": outcome.added, "changed": outcome.changed, "removed": outcome.removed}
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
async def reloading_on_change(registry: Registry, tell: Tell, *, every: float = POLL_SECONDS) -> AsyncIterator[None]:
    """Follow the files, if the registry has any, while the body runs."""
    following = asyncio.create_task(_follow(registry, tell, every)) if registry.agent_files else None
    try:
        yield
    finally:
        if following is not None:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following


@contextlib.contextmanager
def reloading_on_hangup(registry: Registry, tell: Tell) -> Iterator[None]:
    """Reload on SIGHUP, if the registry has files, while the body runs."""
    if not registry.agent_files:  # then the signal ends the process, as usual
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: tell(reload(registry)))
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


async def _follow(registry: Registry, tell: Tell, every: float) -> None:
    loaded: dict[Path, tuple[int, int]] | None = None
    before = None
    while True:
        try:
            now = _looks(registry)
        except OSError:  # a directory went away meanwhile
            now = {}
        # Twice the same: whoever writes the files may be in the middle of it.
        if now != loaded and now == before:
            outcome, is_first = reload(registry), loaded is None  # the first: they may have changed since the start
            loaded = now
            if not (is_first and isinstance(outcome, Unchanged)):
                tell(outcome)
        before = now
        await asyncio.sleep(every)


def _looks(registry: Registry) -> dict[Path, tuple[int, int]]:
    """How everything looks from outside that may have a say: also instructions that no agent names yet."""
    below = (file for path in registry.agent_files for file in (path.rglob("*") if path.is_dir() else [path]))
    looks = {}
    for file in {*below, *registry.sources}:
        with contextlib.suppress(OSError):  # it is gone
            stat = file.stat()
            looks[file] = (stat.st_mtime_ns, stat.st_size)
    return looks


def _is_same(old: Agent, new: Agent) -> bool:
    """Whether they say the same, wherever it is written."""
    return dict(old) == dict(new)
