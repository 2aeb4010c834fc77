"""B-412: typed access to profiles."""

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel, JsonValue

from wakeful.authoring.profiles import (
    UPDATE_ATTEMPTS,
    ProfileConflict,
    ProfileKey,
    ProfileKeyNotFound,
    Profiles,
    ProfileUnreadable,
    agent_owner,
    thread_owner,
)
from wakeful.contract.errors import CallerError, ConfigurationError
from wakeful.profile_stores.sqlite import SqliteProfileStore


class Taste(BaseModel):
    tone: Literal["dry", "warm"] = "dry"
    likes: list[str] = []


TASTE = ProfileKey("taste", Taste, default=Taste())
VISITS = ProfileKey("visits", int, default=0)
NICKNAME = ProfileKey("nickname", str | None, default=None)
OWNER = agent_owner("assistant")


class Busy(SqliteProfileStore):
    """A concurrent write always comes first."""

    attempts = 0

    async def write(self, owner: str, key: str, value: JsonValue, *, expected_revision: int | None = None) -> int:
        self.attempts += 1
        raise ProfileConflict(owner, key, expected=expected_revision or 0, found=7)


def a_profile() -> Profiles:
    return Profiles(SqliteProfileStore(), [TASTE, VISITS, NICKNAME])


async def test_a_missing_value_is_a_new_copy_of_the_default() -> None:
    profiles = a_profile()
    (await profiles.get(OWNER, TASTE)).likes.append("tea")
    assert await profiles.get(OWNER, TASTE) == Taste()
    assert await profiles.get(OWNER, NICKNAME) is None


async def test_a_value_has_its_type_and_its_owner() -> None:
    profiles = a_profile()
    await profiles.set(OWNER, TASTE, Taste(tone="warm"))
    assert await profiles.get(OWNER, TASTE) == Taste(tone="warm")
    assert await profiles.get(thread_owner("t1"), TASTE) == Taste()


async def test_an_update_computes_the_new_value_from_the_old_one() -> None:
    profiles = a_profile()
    assert [await profiles.update(OWNER, VISITS, lambda visits: visits + 1) for _ in range(2)] == [1, 2]


async def test_an_update_fails_when_concurrent_writes_always_come_first() -> None:
    store = Busy()
    with pytest.raises(ProfileConflict, match="is at revision 7, not 0"):
        await Profiles(store, [VISITS]).update(OWNER, VISITS, lambda visits: visits + 1)
    assert store.attempts == UPDATE_ATTEMPTS


async def test_deleting_and_clearing_restore_the_default() -> None:
    profiles = a_profile()
    await profiles.set(OWNER, VISITS, 3)
    await profiles.set(OWNER, NICKNAME, "Al")
    assert [await profiles.delete(OWNER, VISITS), await profiles.delete(OWNER, VISITS)] == [True, False]
    assert [await profiles.clear(OWNER), await profiles.clear(OWNER)] == [1, 0]
    assert await profiles.get(OWNER, VISITS) == 0


async def test_a_key_that_is_not_registered_is_not_found() -> None:
    profiles = a_profile()
    unregistered: list[ProfileKey[Any]] = [ProfileKey("age", int, default=0), ProfileKey("visits", str, default="")]
    for key in unregistered:
        with pytest.raises(ProfileKeyNotFound, match="is not registered; registered: nickname, taste, visits"):
            await profiles.get(OWNER, key)
        with pytest.raises(ProfileKeyNotFound):
            await profiles.set(OWNER, key, key.default())
        with pytest.raises(ProfileKeyNotFound):
            await profiles.update(OWNER, key, lambda value: value)
        with pytest.raises(ProfileKeyNotFound):
            await profiles.delete(OWNER, key)


async def test_a_stored_value_of_another_type_is_rejected() -> None:
    store = SqliteProfileStore()
    await store.write(OWNER, "visits", "many")
    with pytest.raises(ProfileUnreadable, match="the stored value of profile key 'visits' is not of its type"):
        await Profiles(store, [VISITS]).get(OWNER, VISITS)


def test_two_keys_with_one_name_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="two profile keys have the name 'visits'"):
        Profiles(SqliteProfileStore(), [VISITS, ProfileKey("visits", str, default="")])
    Profiles(SqliteProfileStore(), [VISITS, VISITS])


@pytest.mark.parametrize(
    ("key", "type", "default"), [("", int, 0), ("age", int, "old"), ("age", int, None), ("thing", object, object())]
)
def test_an_invalid_key_is_rejected(key: str, type: type[object], default: object) -> None:
    with pytest.raises(ConfigurationError, match=f"profile key {key!r}: "):
        ProfileKey(key, type, default=default)


async def test_wait_runs_an_operation_in_the_event_loop() -> None:
    profiles = a_profile()
    await profiles.set(OWNER, VISITS, 3)
    assert await asyncio.to_thread(lambda: profiles.wait(profiles.get(OWNER, VISITS))) == 3


def test_wait_works_without_an_event_loop() -> None:
    """For example in a unit test of a sync tool."""
    profiles = a_profile()
    profiles.wait(profiles.set(OWNER, VISITS, 3))
    assert profiles.wait(profiles.get(OWNER, VISITS)) == 3


async def test_wait_does_not_deadlock_the_event_loop() -> None:
    profiles = a_profile()
    with pytest.raises(CallerError, match="would deadlock in the event loop: use await"):
        profiles.wait(profiles.get(OWNER, VISITS))


async def test_profiles_without_a_store_say_what_is_missing() -> None:
    nowhere = Profiles()
    with pytest.raises(ProfileKeyNotFound, match="'visits' is not registered; registered: none; pass profile_keys="):
        await nowhere.get(OWNER, VISITS)
    with pytest.raises(ConfigurationError, match="profiles are not configured: pass profile_keys="):
        await nowhere.clear(OWNER)
