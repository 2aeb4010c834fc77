"""Profiles in PostgreSQL, for workers on several machines. Needs the extra `postgres`, which installs asyncpg."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from pydantic import JsonValue

from wakeful.authoring.profiles import (
    ProfileConflict,
    ProfileEntry,
    ProfileStoreFailed,
    as_text,
    check_names,
    from_text,
)
from wakeful.contract.errors import CallerError, ConfigurationError

if TYPE_CHECKING:
    import asyncpg

MAX_CONNECTIONS = 5
TIMEOUT_SECONDS = 30.0
"""How long a connection or a statement may take."""

_LOCK = 0x77616B6566756C
"""The advisory lock for creating the tables: `CREATE … IF NOT EXISTS` fails if two workers run it at once."""

_SCHEMA = """
CREATE SEQUENCE IF NOT EXISTS wakeful_profile_revisions;
CREATE TABLE IF NOT EXISTS wakeful_profiles (
    owner text NOT NULL, key text NOT NULL, value json NOT NULL, revision bigint NOT NULL, PRIMARY KEY (owner, key)
);
"""

# One sequence for all values: a value that is deleted and written again must not get an old revision.
_WRITE = """
INSERT INTO wakeful_profiles VALUES ($1, $2, $3::text::json, nextval('wakeful_profile_revisions'))
ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value, revision = nextval('wakeful_profile_revisions')
RETURNING revision
"""
_WRITE_FIRST = """
INSERT INTO wakeful_profiles VALUES ($1, $2, $3::text::json, nextval('wakeful_profile_revisions'))
ON CONFLICT (owner, key) DO NOTHING RETURNING revision
"""
_WRITE_NEXT = """
UPDATE wakeful_profiles SET value = $3::text::json, revision = nextval('wakeful_profile_revisions')
WHERE owner = $1 AND key = $2 AND revision = $4 RETURNING revision
"""
_READ = "SELECT key, value::text, revision FROM wakeful_profiles WHERE owner = $1 AND key = $2"
_LIST = 'SELECT key, value::text, revision FROM wakeful_profiles WHERE owner = $1 ORDER BY key COLLATE "C"'


class PostgresProfileStore:
    """Profiles in the table `wakeful_profiles` and the sequence `wakeful_profile_revisions`, created at the first use.

    Use one instance in one event loop only.

    Args:
        dsn: `postgresql://user:password@host/database`; missing parts come from `PGHOST` and so on.

    Raises:
        ConfigurationError: asyncpg is not installed.
    """

    def __init__(self, dsn: str) -> None:
        try:
            import asyncpg
        except ImportError as error:
            raise ConfigurationError(["profiles in PostgreSQL need: pip install 'wakeful[postgres]'"]) from error
        self._asyncpg = asyncpg
        self._dsn = dsn
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    async def read(self, owner: str, key: str) -> ProfileEntry | None:
        check_names(owner=owner, key=key)
        async with self._connection() as connection:
            row = await connection.fetchrow(_READ, owner, key)
        return None if row is None else _entry(row)

    async def write(self, owner: str, key: str, value: JsonValue, *, expected_revision: int | None = None) -> int:
        check_names(owner=owner, key=key)
        stored = (owner, key, as_text(value))
        async with self._connection() as connection:
            if expected_revision is None:
                revision = await connection.fetchval(_WRITE, *stored)
            elif expected_revision == 0:
                revision = await connection.fetchval(_WRITE_FIRST, *stored)
            else:
                revision = await connection.fetchval(_WRITE_NEXT, *stored, expected_revision)
        if revision is not None:
            return int(revision)
        found = await self.read(owner, key)
        raise ProfileConflict(owner, key, expected=expected_revision or 0, found=found.revision if found else 0)

    async def delete(self, owner: str, key: str) -> bool:
        check_names(owner=owner, key=key)
        async with self._connection() as connection:
            done = await connection.execute("DELETE FROM wakeful_profiles WHERE owner = $1 AND key = $2", owner, key)
        return _count(done) > 0

    async def list(self, owner: str) -> tuple[ProfileEntry, ...]:
        check_names(owner=owner)
        async with self._connection() as connection:
            rows = await connection.fetch(_LIST, owner)
        return tuple(_entry(row) for row in rows)

    async def clear(self, owner: str) -> int:
        check_names(owner=owner)
        async with self._connection() as connection:
            return _count(await connection.execute("DELETE FROM wakeful_profiles WHERE owner = $1", owner))

    async def aclose(self) -> None:
        self._closed = True
        async with self._opening:
            pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator["asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"]:
        if self._closed:
            raise CallerError("the profile store is closed")
        try:
            pool = self._pool or await self._open()
            async with pool.acquire(timeout=TIMEOUT_SECONDS) as connection:
                yield connection
        except (self._asyncpg.PostgresError, self._asyncpg.InterfaceError, OSError, TimeoutError) as error:
            # Without the address, which may contain a password.
            raise ProfileStoreFailed(f"the profile store in PostgreSQL failed: {error}") from error

    async def _open(self) -> "asyncpg.Pool[asyncpg.Record]":
        # One at a time: concurrent calls would each create a pool.
        async with self._opening:
            if self._pool is None:
                pool = self._asyncpg.create_pool(
                    self._dsn,
                    min_size=0,
                    max_size=MAX_CONNECTIONS,
                    timeout=TIMEOUT_SECONDS,
                    command_timeout=TIMEOUT_SECONDS,
                    # Prepared statements do not survive a pooler such as PgBouncer.
                    statement_cache_size=0,
                )
                await pool
                try:
                    await _create_tables(pool)
                except BaseException:
                    pool.terminate()
                    raise
                self._pool = pool
            return self._pool


async def _create_tables(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    async with pool.acquire(timeout=TIMEOUT_SECONDS) as connection:
        # If the tables exist, a role without the right to create tables is enough.
        if await connection.fetchval("SELECT to_regclass('wakeful_profiles') IS NOT NULL"):
            return
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
            await connection.execute(_SCHEMA)


def _entry(row: "asyncpg.Record") -> ProfileEntry:
    return ProfileEntry(row["key"], from_text(row["value"]), row["revision"])


def _count(done: str) -> int:
    """How many rows a `DELETE 3` deleted."""
    return int(done.rpartition(" ")[2])
