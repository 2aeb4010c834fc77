"""While a worker runs, it discovers the agents of its sources again."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

import pytest
from starlette.responses import Response

from tests.support.agent_cards import card_server
from tests.support.waiting import BOUND_SECONDS
from wakeful import A2aSource, Registry
from wakeful.registry.source_refresh import refreshing_sources

SOON = timedelta(milliseconds=20)


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while not met():
            await asyncio.sleep(0.01)


async def test_agents_are_discovered_again_and_a_failure_keeps_the_old_ones(caplog: pytest.LogCaptureFixture) -> None:
    """B-627"""
    caplog.set_level(logging.INFO, logger="wakeful")
    async with card_server("Weather") as server:
        registry = Registry(sources=[A2aSource(name="partner", url=server.url)])
        async with refreshing_sources(registry, SOON, poll_seconds=0.01):
            assert [*registry.discovered] == ["partner/weather"]
            server.offer("Climate")
            await until(lambda: [*registry.discovered] == ["partner/climate"])
            server.answer = Response(status_code=503)
            await until(lambda: "remote agents not refreshed" in caplog.messages)
            assert [*registry.discovered] == ["partner/climate"]
            server.answer = None
            server.offer("Stocks")
            await until(lambda: [*registry.discovered] == ["partner/stocks"])
    warning = next(record for record in caplog.records if record.message == "remote agents not refreshed")
    assert "source 'partner': HTTP 503" in vars(warning)["problem"]


async def test_a_source_that_a_replacement_adds_is_discovered_soon() -> None:
    async with card_server() as server:
        registry = Registry()
        async with refreshing_sources(registry, None, poll_seconds=0.01):
            registry.replace(sources=[A2aSource(name="partner", url=server.url)])
            await until(lambda: [*registry.discovered] == ["partner/weather"])


async def test_a_source_that_fails_at_the_start_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="wakeful")
    async with card_server("Weather") as server:
        server.answer = Response(status_code=503)
        registry = Registry(sources=[A2aSource(name="partner", url=server.url)])
        async with refreshing_sources(registry, None, poll_seconds=0.01, retry_seconds=0.02):
            assert caplog.messages == ["remote agents not refreshed"]
            assert registry.undiscovered == ("partner",)
            server.answer = None
            await until(lambda: [*registry.discovered] == ["partner/weather"])
    assert not registry.undiscovered
