"""Every test of the workflow runs twice: as usual, and, by `make restless`, continuing as new after every fact."""

import pytest

from wakeful.client.client import Client


@pytest.fixture
def client(either_client: Client) -> Client:
    return either_client
