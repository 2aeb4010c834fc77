"""PostgreSQL only: databases without our tables, and roles that may not create any."""

import asyncio
import uuid

import asyncpg
import pytest

from tests.profiles.postgres import Cluster
from wakeful.authoring.profiles import SYSTEM, ProfileEntry, ProfileStoreFailed
from wakeful.profile_stores.postgres import PostgresProfileStore

pytestmark = pytest.mark.integration

GRANTS = """
CREATE ROLE reader LOGIN;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE, DELETE ON wakeful_profiles TO reader;
GRANT USAGE ON SEQUENCE wakeful_profile_revisions TO reader;
"""


@pytest.fixture
async def database(cluster: Cluster) -> str:
    """The address of an empty database."""
    name = f"fresh_{uuid.uuid4().hex}"
    await execute(cluster.address, f"CREATE DATABASE {name}")
    return f"{cluster.address.removesuffix('/postgres')}/{name}"


async def execute(address: str, sql: str) -> None:
    connection = await asyncpg.connect(address)
    await connection.execute(sql)
    await connection.close()


async def test_workers_that_start_at_once_create_the_tables_once(database: str) -> None:
    stores = [PostgresProfileStore(database) for _ in range(10)]
    await asyncio.gather(*(store.write(SYSTEM, f"key-{number}", number) for number, store in enumerate(stores)))
    assert [entry.value for entry in await stores[0].list(SYSTEM)] == list(range(10))
    for store in stores:
        await store.aclose()


async def test_a_role_that_may_only_read_and_write_is_enough_if_the_tables_exist(database: str) -> None:
    owner = PostgresProfileStore(database)
    await owner.write(SYSTEM, "key", 1)
    await owner.aclose()
    await execute(database, GRANTS)
    store = PostgresProfileStore(database.replace("postgres@", "reader@"))
    revision = await store.write(SYSTEM, "key", 2)
    assert await store.read(SYSTEM, "key") == ProfileEntry("key", 2, revision)
    await execute(database, "DROP TABLE wakeful_profiles")
    with pytest.raises(ProfileStoreFailed, match="wakeful_profiles"):
        await store.read(SYSTEM, "key")
    await store.aclose()
