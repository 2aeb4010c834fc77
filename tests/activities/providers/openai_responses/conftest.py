"""A provider that calls the fake one."""

import httpx
import pytest

from tests.support.fake_provider.server import FakeProvider
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses


@pytest.fixture
def responses(fake: FakeProvider, http: httpx.AsyncClient) -> OpenAIResponses:
    return OpenAIResponses(api_key="sk-1", base_url=fake.chat_url, timeout=5, client=http)
