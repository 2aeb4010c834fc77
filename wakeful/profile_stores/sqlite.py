"""Profiles in a SQLite file or in memory, for one machine. Several workers can share the file."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from wakeful.authoring.profiles import (
    ProfileConflict,
    ProfileEntry,
    ProfileStoreFailed,
    as_text,
    check_names,
    from_text,
)
from wakeful.contract.errors import CallerError

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 30.0
"""How long a write waits for writes of other processes."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS profiles (
    owner TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, revision INTEGER NOT NULL, PRIMARY KEY (owner, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS profile_revisions (newest INTEGER NOT NULL);
INSERT INTO profile_revisions SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM profile_revisions);
"""


class SqliteProfileStore:
    """Profiles in the file at `path`, which is created at the first use; in memory if `path` is None."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        # One thread owns the connection: sqlite3 blocks, and an in-memory database belongs to its connection.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wakeful-profiles")
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    async def read(self, owner: str, key: str) -> ProfileEntry | None:
        check_names(owner=owner, key=key)
        sql = "SELECT key, value, revision FROM profiles WHERE owner = ? AND key = ?"
        row = await self._run(lambda db: db.execute(sql, (owner, key)).fetchone())
        return None if row is None else _entry(row)

    async def write(self, owner: str, key: str, value: JsonValue, *, expected_revision: int | None = None) -> int:
        check_names(owner=owner, key=key)
        text = as_text(value)
        return await self._run(lambda db: _write(db, owner, key, text, expected_revision))

    async def delete(self, owner: str, key: str) -> bool:
        check_names(owner=owner, key=key)
        sql = "DELETE FROM profiles WHERE owner = ? AND key = ?"
        return await self._run(lambda db: db.execute(sql, (owner, key)).rowcount) > 0

    async def list(self, owner: str) -> tuple[ProfileEntry, ...]:
        check_names(owner=owner)
        sql = "SELECT key, value, revision FROM profiles WHERE owner = ? ORDER BY key"
        rows = await self._run(lambda db: db.execute(sql, (owner,)).fetchall())
        return tuple(_entry(row) for row in rows)

    async def clear(self, owner: str) -> int:
        check_names(owner=owner)
        sql = "DELETE FROM profiles WHERE owner = ?"
        return await self._run(lambda db: db.execute(sql, (owner,)).rowcount)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
            self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise CallerError("the profile store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._perform, work)

    def _perform(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            connection = self._connection or self._connect()
            return work(connection)
        except (sqlite3.Error, OSError) as error:
            where = "in memory" if self._path is None else repr(str(self._path))
            raise ProfileStoreFailed(f"the profile store {where} failed: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        # No isolation level: only this module starts transactions, and a single statement commits itself.
        connection = sqlite3.connect(self._path or ":memory:", timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
        try:
            _use_wal(connection)
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _use_wal(connection: sqlite3.Connection) -> None:
    """Use write-ahead logging, so that readers do not wait for writers. The file stores the setting.

    SQLite does not wait if another process opens the file at the same moment, so this retries.
    """
    until = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _write(db: sqlite3.Connection, owner: str, key: str, text: str, expected: int | None) -> int:
    # IMMEDIATE: two deferred transactions that have both read could not both write.
    db.execute("BEGIN IMMEDIATE")
    with db:
        if expected is not None:
            row = db.execute("SELECT revision FROM profiles WHERE owner = ? AND key = ?", (owner, key)).fetchone()
            found = 0 if row is None else int(row[0])
            if found != expected:
                raise ProfileConflict(owner, key, expected=expected, found=found)
        # One counter for all values: a value that is deleted and written again must not get an old revision.
        db.execute("UPDATE profile_revisions SET newest = newest + 1")
        revision = int(db.execute("SELECT newest FROM profile_revisions").fetchone()[0])
        db.execute("INSERT OR REPLACE INTO profiles VALUES (?, ?, ?, ?)", (owner, key, text, revision))
    return revision


def _entry(row: tuple[str, str, int]) -> ProfileEntry:
    key, text, revision = row
    return ProfileEntry(key, from_text(text), revision)
