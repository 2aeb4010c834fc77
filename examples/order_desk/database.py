"""The company's database, and a pool of connections to it, which a worker opens once."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS shops (tenant TEXT PRIMARY KEY, manner TEXT, refund_limit INTEGER);
CREATE TABLE IF NOT EXISTS orders (tenant TEXT, id INTEGER, item TEXT, price INTEGER, PRIMARY KEY (tenant, id));
CREATE TABLE IF NOT EXISTS refunds (key TEXT PRIMARY KEY, tenant TEXT, order_id INTEGER, amount INTEGER);
INSERT OR IGNORE INTO shops VALUES ('acme', 'Be brief.', 100), ('globex', 'Be formal.', 0);
INSERT OR IGNORE INTO orders VALUES ('acme', 1, 'kettle', 40), ('acme', 2, 'oven', 400), ('globex', 1, 'lamp', 30);
"""
POOL_SIZE = 4


class Database:
    """A pool of SQLite connections; each is used by one thread at a time."""

    def __init__(self, connections: list[sqlite3.Connection]) -> None:
        self._free: asyncio.Queue[sqlite3.Connection] = asyncio.Queue()
        for connection in connections:
            self._free.put_nowait(connection)

    async def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement returns; what it writes is committed."""
        connection = await self._free.get()
        try:
            return await asyncio.to_thread(_query, connection, sql, values)
        finally:
            self._free.put_nowait(connection)


def _query(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    with connection:
        return connection.execute(sql, values).fetchall()


@contextlib.asynccontextmanager
async def connect() -> AsyncIterator[Database]:
    """The registry's lifespan. `ORDER_DESK_DATABASE` names the file."""
    path = Path(os.environ.get("ORDER_DESK_DATABASE", "order_desk.sqlite"))
    connections = [sqlite3.connect(path, check_same_thread=False, timeout=30) for _ in range(POOL_SIZE)]
    connections[0].executescript(SCHEMA)
    try:
        yield Database(connections)
    finally:
        for connection in connections:
            connection.close()
