"""Every test of the workflow runs twice: as usual, and, by `make restless`, continuing as new after every fact."""

import pytest

from wakeful.client.client import Client


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def client(request: pytest.FixtureRequest) -> Client:
    client: Client = request.getfixturevalue(f"{request.param}_client")
    return client
