"""Keep what a registry knows of its sources fresh, while a worker runs."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import timedelta

from wakeful.authoring.a2a_source import A2aSource
from wakeful.contract.errors import ConfigurationError, DiscoveryFailed
from wakeful.registry.registry import Registry

POLL_SECONDS = 1.0
"""How soon a source is discovered that a replacement or a reload has added."""
RETRY_SECONDS = 10.0
"""How soon sources are tried again while nothing is known of one of them."""

_logger = logging.getLogger("wakeful")


@contextlib.asynccontextmanager
async def refreshing_sources(
    registry: Registry,
    every: timedelta | None,
    *,
    poll_seconds: float = POLL_SECONDS,
    retry_seconds: float = RETRY_SECONDS,
) -> AsyncIterator[None]:
    """Discover the agents of all sources, and again at this interval while the body runs.

    A failure is logged, and the agents stay as they are: an outage of another service stops no worker.

    Args:
        every: None discovers them again only if the sources change, or if nothing is known of one.

    Raises:
        ConfigurationError: an agent names one that no source has.
    """
    sources = registry.sources
    try:
        await registry.initialize()
    except DiscoveryFailed as error:
        _warn(error)
    refreshing = asyncio.create_task(_refresh(registry, sources, every, poll_seconds, retry_seconds))
    try:
        yield
    finally:
        refreshing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await refreshing


async def _refresh(
    registry: Registry,
    sources: tuple[A2aSource, ...],
    every: timedelta | None,
    poll_seconds: float,
    retry_seconds: float,
) -> None:
    loop = asyncio.get_running_loop()
    at = loop.time()
    while True:
        await asyncio.sleep(poll_seconds)
        waits = [retry_seconds] if registry.undiscovered else []
        waits += [every.total_seconds()] if every is not None else []
        is_due = bool(waits) and loop.time() - at >= min(waits)
        if registry.sources == sources and not is_due:
            continue
        sources, at = registry.sources, loop.time()
        await _refresh_once(registry)


async def _refresh_once(registry: Registry) -> None:
    before = registry.discovered
    try:
        version = await registry.refresh()
    except (DiscoveryFailed, ConfigurationError) as error:
        _warn(error)
    except Exception:  # no service may stop a running worker
        _logger.exception("remote agents not refreshed")
    else:
        if registry.discovered != before:
            _logger.info("remote agents refreshed", extra={"version": version, "agents": [*registry.discovered]})


def _warn(error: DiscoveryFailed | ConfigurationError) -> None:
    _logger.warning("remote agents not refreshed", extra={"problem": str(error)})
