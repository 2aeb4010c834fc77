"""B-412: the guarantees of every profile store."""

import asyncio
import math
import sys
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.profiles.conftest import Opener
from tests.profiles.postgres import Cluster
from wakeful.authoring.profiles import (
    SYSTEM,
    ProfileConflict,
    ProfileEntry,
    ProfileKey,
    Profiles,
    ProfileStore,
    ProfileStoreFailed,
    thread_owner,
)
from wakeful.contract.errors import CallerError, ConfigurationError
from wakeful.profile_stores.postgres import PostgresProfileStore
from wakeful.profile_stores.sqlite import SqliteProfileStore
from wakeful.profile_stores.worker_profiles import DEFAULT, VARIABLE, profile_store

VALUES: list[JsonValue] = [
    None,
    False,
    0,
    12345678901234567890123456789,
    0.1,
    "",
    "Grüße \U0001f600 \x00 ' \" \\",
    "\ud800",
    [],
    {"b": [1, {"a": None}], "a": "the order of keys is kept"},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_a_value_comes_back_as_it_was_written(store: ProfileStore, owner: str, value: JsonValue) -> None:
    revision = await store.write(owner, "key", value)
    entry = await store.read(owner, "key")
    assert entry == ProfileEntry("key", value, revision)
    if isinstance(value, dict):
        assert isinstance(entry.value, dict)
        assert list(entry.value) == list(value)


async def test_a_key_that_was_never_written_has_no_value(store: ProfileStore, owner: str) -> None:
    assert await store.read(owner, "key") is None
    assert await store.list(owner) == ()


async def test_owners_are_any_text_and_independent(store: ProfileStore, owner: str) -> None:
    owners = [owner, owner.upper(), f"{owner} ", SYSTEM, thread_owner(owner), "agent_type::Ü", "x" * 1000]
    for number, one in enumerate(owners):
        await store.write(one, "key", number)
    assert [await store.list(one) for one in owners] == [
        (ProfileEntry("key", number, (await store.list(one))[0].revision),) for number, one in enumerate(owners)
    ]
    for one in owners:
        await store.clear(one)


async def test_the_values_of_an_owner_are_listed_by_key(store: ProfileStore, owner: str) -> None:
    for key in ("b", "ä", "B", "a_", "a"):
        await store.write(owner, key, key)
    assert [entry.value for entry in await store.list(owner)] == ["B", "a", "a_", "b", "ä"]


async def test_deleting_and_clearing_twice_changes_nothing(store: ProfileStore, owner: str) -> None:
    for key in ("a", "b", "c"):
        await store.write(owner, key, 1)
    assert [await store.delete(owner, "a"), await store.delete(owner, "a")] == [True, False]
    assert [await store.clear(owner), await store.clear(owner)] == [2, 0]


async def test_a_write_that_expects_the_stored_revision_succeeds(store: ProfileStore, owner: str) -> None:
    first = await store.write(owner, "key", 1, expected_revision=0)
    second = await store.write(owner, "key", 2, expected_revision=first)
    assert second > first
    assert await store.read(owner, "key") == ProfileEntry("key", 2, second)


async def test_a_write_that_expects_another_revision_changes_nothing(store: ProfileStore, owner: str) -> None:
    first = await store.write(owner, "key", 1)
    second = await store.write(owner, "key", 2)
    for expected in (0, first):
        with pytest.raises(ProfileConflict, match="read it again") as conflict:
            await store.write(owner, "key", 3, expected_revision=expected)
        assert (conflict.value.expected, conflict.value.found) == (expected, second)
    assert await store.read(owner, "key") == ProfileEntry("key", 2, second)


async def test_a_value_that_was_deleted_and_written_again_does_not_have_its_old_revision(
    store: ProfileStore, owner: str
) -> None:
    first = await store.write(owner, "key", "old")
    await store.delete(owner, "key")
    with pytest.raises(ProfileConflict) as conflict:
        await store.write(owner, "key", "late", expected_revision=first)
    assert conflict.value.found == 0
    assert await store.write(owner, "key", "new", expected_revision=0) > first
    with pytest.raises(ProfileConflict):
        await store.write(owner, "key", "late", expected_revision=first)


@pytest.mark.parametrize("name", ["", "\x00", "\ud800", "x" * 1001], ids=repr)
async def test_invalid_names_are_rejected(store: ProfileStore, owner: str, name: str) -> None:
    with pytest.raises(CallerError, match="the owner"):
        await store.write(name, "key", 1)
    with pytest.raises(CallerError, match="the key"):
        await store.read(owner, name)
    with pytest.raises(CallerError, match="the key"):
        await store.delete(owner, name)
    for method in (store.list, store.clear):
        with pytest.raises(CallerError, match="the owner"):
            await method(name)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, b"", {1: "one"}, object()], ids=["nan", "inf", "bytes", "int key", "object"]
)
async def test_values_that_are_not_json_are_rejected(store: ProfileStore, owner: str, value: JsonValue) -> None:
    with pytest.raises(CallerError, match="must be JSON"):
        await store.write(owner, "key", value)
    assert await store.list(owner) == ()


async def test_twenty_writers_lose_no_update(shared: Opener, owner: str) -> None:
    key = ProfileKey("count", int, default=0)
    workers = [Profiles(shared(), [key]) for _ in range(4)]

    async def count(profiles: Profiles) -> None:
        for _ in range(5):
            await profiles.update(owner, key, lambda value: value + 1)

    await asyncio.gather(*(count(workers[writer % 4]) for writer in range(20)))
    assert await workers[0].get(owner, key) == 100


async def test_of_twenty_first_writers_one_succeeds(shared: Opener, owner: str) -> None:
    stores = [shared() for _ in range(20)]

    async def claim(number: int) -> bool:
        try:
            await stores[number].write(owner, "claim", number, expected_revision=0)
        except ProfileConflict:
            return False
        return True

    claimed = await asyncio.gather(*(claim(number) for number in range(20)))
    assert claimed.count(True) == 1
    entry = await stores[0].read(owner, "claim")
    assert entry is not None
    assert entry.value == claimed.index(True)


async def test_a_reopened_store_has_everything(shared: Opener, owner: str) -> None:
    before = shared()
    revision = await before.write(owner, "key", {"kept": True})
    await before.aclose()
    assert await shared().read(owner, "key") == ProfileEntry("key", {"kept": True}, revision)


async def test_a_store_can_be_closed_twice_and_rejects_use_afterwards(store: ProfileStore, owner: str) -> None:
    await store.write(owner, "key", 1)
    await store.aclose()
    await store.aclose()
    with pytest.raises(CallerError, match="is closed"):
        await store.read(owner, "key")


async def test_a_store_that_was_never_used_can_be_closed(tmp_path: Path) -> None:
    await SqliteProfileStore(tmp_path / "profiles.db").aclose()
    await PostgresProfileStore("postgresql://nobody@127.0.0.1:1/none").aclose()
    assert list(tmp_path.iterdir()) == []


WRITER = """
import asyncio, pathlib, sys
from wakeful.profile_stores.sqlite import SqliteProfileStore

async def main():
    store = SqliteProfileStore(pathlib.Path(sys.argv[1]))
    for number in range(1_000_000):
        print(await store.write("system", "number", number), number, flush=True)

asyncio.run(main())
"""


async def test_acknowledged_writes_of_a_killed_process_are_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "profiles.db"
    pipe = asyncio.subprocess.PIPE
    writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, str(path), stdout=pipe)
    assert writer.stdout is not None
    written = [await writer.stdout.readline() for _ in range(50)]
    writer.kill()
    written += (await writer.stdout.read()).splitlines()
    await writer.wait()
    revision, number = (int(word) for word in written[-1].split())
    store = SqliteProfileStore(path)
    entry = await store.read(SYSTEM, "number")
    # One more write may have been committed without being printed.
    assert entry in [ProfileEntry("number", number + more, revision + more) for more in (0, 1)]
    assert await store.write(SYSTEM, "number", 0) > entry.revision
    await store.aclose()


@pytest.mark.integration
async def test_a_store_survives_a_crash_of_the_postgres_server(cluster: Cluster, owner: str) -> None:
    store = PostgresProfileStore(cluster.address)
    revision = await store.write(owner, "key", 1)
    await asyncio.to_thread(cluster.restart)
    assert await store.write(owner, "key", 2, expected_revision=revision) > revision
    await store.aclose()


async def test_the_error_of_a_store_does_not_contain_its_password(tmp_path: Path) -> None:
    (tmp_path / "profiles.db").write_text("this is not a database, and it is long enough to be recognised as such")
    broken = SqliteProfileStore(tmp_path / "profiles.db")
    with pytest.raises(ProfileStoreFailed, match="not a database"):
        await broken.read(SYSTEM, "key")
    await broken.aclose()
    unreachable = PostgresProfileStore("postgresql://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(ProfileStoreFailed, match="in PostgreSQL failed") as failed:
        await unreachable.read(SYSTEM, "key")
    assert "secret" not in str(failed.value)
    await unreachable.aclose()


async def test_the_environment_selects_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert DEFAULT == "sqlite:.wakeful/profiles.db"
    usual, file = profile_store({}), profile_store({VARIABLE: f"sqlite:{tmp_path}/mine.db"})
    memory, postgres = profile_store({VARIABLE: "memory:"}), profile_store({VARIABLE: "postgresql://localhost/x"})
    assert isinstance(postgres, PostgresProfileStore)
    assert list(tmp_path.iterdir()) == []
    for store in (usual, file, memory):
        await store.write(SYSTEM, "key", 1)
        await store.aclose()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.db")) == [
        ".wakeful/profiles.db",
        "mine.db",
    ]


@pytest.mark.parametrize("address", ["mysql://root:secret@host/x", "sqlite:", "memory", "profiles.db"])
def test_an_address_of_an_unknown_store_is_rejected(address: str) -> None:
    with pytest.raises(ConfigurationError, match="write it as memory:") as rejected:
        profile_store({VARIABLE: address})
    assert "secret" not in str(rejected.value)


def test_without_asyncpg_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigurationError, match=r"wakeful\[postgres\]"):
        profile_store({VARIABLE: "postgresql://localhost/x"})
