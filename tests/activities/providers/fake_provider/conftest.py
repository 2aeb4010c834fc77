"""A fake provider that validates requests, and a client for it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.fake_provider.server import FakeProvider, fake_provider


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as running:
        yield running


@pytest.fixture
async def http(fake: FakeProvider) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"anthropic-version": "2023-06-01"}
    async with httpx.AsyncClient(base_url=fake.anthropic_url, headers=headers, trust_env=False) as client:
        yield client
