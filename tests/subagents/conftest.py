"""Trees of agents on the real server; tests run as usual, and, by `make restless`, continuing as new all the time."""

import pytest

from wakeful.client.client import Client


@pytest.fixture
def client(either_subagents: Client) -> Client:
    return either_subagents
