"""Trees of agents on the real server; `make restless` runs the tests again, continuing as new after every fact."""

import pytest

from wakeful.client.client import Client


@pytest.fixture
def client(either_subagents: Client) -> Client:
    return either_subagents
