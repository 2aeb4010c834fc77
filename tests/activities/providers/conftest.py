"""A fake provider on loopback, and an HTTP client to share."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.activities.providers.openai_chat.wire import CANARY
from tests.support.fake_provider.server import FakeProvider, fake_provider
from wakeful_activities.providers.openai_chat.provider import OpenAIChat


@pytest.fixture
async def fake() -> AsyncIterator[FakeProvider]:
    """It accepts every request: tests compare or validate the body themselves."""
    async with fake_provider(validate=False) as running:
        yield running


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as shared:
        yield shared


@pytest.fixture
def chat(fake: FakeProvider, http: httpx.AsyncClient) -> OpenAIChat:
    return OpenAIChat(api_key=CANARY, base_url=fake.chat_url, timeout=5, client=http)
