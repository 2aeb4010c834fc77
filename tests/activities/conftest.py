"""A model server on loopback, and a client to share."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.activities.providers.openai_stub import OpenAIStub, openai_stub


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def stub() -> AsyncIterator[OpenAIStub]:
    async with openai_stub() as running:
        yield running


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as shared:
        yield shared
