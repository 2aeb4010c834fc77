"""The profile stores, which all give the same guarantees."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.profiles.postgres import Cluster, missing
from wakeful.authoring.profiles import ProfileStore
from wakeful.profile_stores.postgres import PostgresProfileStore
from wakeful.profile_stores.sqlite import SqliteProfileStore

Opener = Callable[[], ProfileStore]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.close()


POSTGRES = pytest.param("postgres", marks=pytest.mark.integration)


@pytest.fixture(params=["sqlite", POSTGRES])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens the same store each time, as several workers do."""
    opened: list[ProfileStore] = []
    address = None if request.param == "sqlite" else request.getfixturevalue("cluster").address

    def open_store() -> ProfileStore:
        path = tmp_path / "new" / "profiles.db"
        opened.append(SqliteProfileStore(path) if address is None else PostgresProfileStore(address))
        return opened[-1]

    yield open_store
    for store in opened:
        await store.aclose()


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ProfileStore]:
    """A store of each kind."""
    opened: ProfileStore
    if request.param == "postgres":
        opened = PostgresProfileStore(request.getfixturevalue("cluster").address)
    else:
        opened = SqliteProfileStore(tmp_path / "profiles.db" if request.param == "sqlite" else None)
    yield opened
    await opened.aclose()


@pytest.fixture
def owner() -> str:
    """An owner of the test's own: the PostgreSQL server is shared."""
    return f"agent:{uuid.uuid4()}"
