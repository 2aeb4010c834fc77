"""A provider that calls the fake one."""

import httpx
import pytest

from tests.support.fake_provider.server import FakeProvider
from wakeful_activities.providers.anthropic.provider import AnthropicMessages


@pytest.fixture
def anthropic(fake: FakeProvider, http: httpx.AsyncClient) -> AnthropicMessages:
    return AnthropicMessages(api_key="sk-1", base_url=f"http://{fake.host}", timeout=5, client=http)
