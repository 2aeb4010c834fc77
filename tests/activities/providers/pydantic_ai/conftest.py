"""Real model classes of pydantic-ai, over the fake provider."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.support.fake_provider.server import FakeProvider

KEY = "sk-canary-1f6b2c9d"


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    """Shared, because to load the CA certificates takes long."""
    async with httpx2.AsyncClient(trust_env=False) as shared:
        yield shared


@pytest.fixture
def models(fake: FakeProvider, client: httpx2.AsyncClient) -> dict[str, Model]:
    """A model per wire format."""
    openai = OpenAIProvider(base_url=fake.chat_url, api_key=KEY, http_client=client)
    anthropic = AnthropicProvider(base_url=fake.anthropic_url, api_key=KEY, http_client=client)
    return {
        "chat": OpenAIChatModel("gpt-5-mini", provider=openai),
        "responses": OpenAIResponsesModel("gpt-5-mini", provider=openai),
        "anthropic": AnthropicModel("claude-opus-5", provider=anthropic),
    }


@pytest.fixture(params=["chat", "responses", "anthropic"])
def model(request: pytest.FixtureRequest, models: dict[str, Model]) -> Model:
    return models[request.param]
