"""Every test of the workflow runs twice: as usual, and, by `make restless`, continuing as new after every fact."""

import pytest

from wakeful.client.client import WakefulClient


@pytest.fixture(params=["usual", pytest.param("restless", marks=pytest.mark.restless)])
def client(request: pytest.FixtureRequest) -> WakefulClient:
    client: WakefulClient = request.getfixturevalue(f"{request.param}_client")
    return client
