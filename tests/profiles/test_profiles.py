"""B-412: typed access to profiles."""

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel, JsonValue

from wakeful.authoring.profiles import (
    UPDATE_TRIES,
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
    """Somebody else is always faster."""

    tries = 0

    async def write(self, owner: str, key: str, value: JsonValue, *, expected_revision: int | None = None) -> int:
        self.tries += 1
        raise ProfileConflict(owner, key, expected=expected_revision or 0, found=7)


def a_profile() -> Profiles:
    return Profiles(SqliteProfileStore(), [TASTE, VISITS, NICKNAME])


async def test_a_missing_value_is_the_default_and_everybody_has_one_of_their_own() -> None:
    profiles = a_profile()
    (await profiles.get(OWNER, TASTE)).likes.append("tea")
    assert await profiles.get(OWNER, TASTE) == Taste()
    assert await profiles.get(OWNER, NICKNAME) is None


async def test_a_value_has_its_type_and_its_owner() -> None:
    profiles = a_profile()
    await profiles.set(OWNER, TASTE, Taste(tone="warm"))
    assert await profiles.get(OWNER, TASTE) == Taste(tone="warm")
    assert await profiles.get(thread_owner("t1"), TASTE) == Taste()


async def test_an_update_is_made_of_the_old_value() -> None:
    profiles = a_profile()
    assert [await profiles.update(OWNER, VISITS, lambda visits: visits + 1) for _ in range(2)] == [1, 2]


async def test_an_update_gives_up_when_others_are_always_faster() -> None:
    store = Busy()
    with pytest.raises(ProfileConflict, match="is at revision 7, not at 0"):
        await Profiles(store, [VISITS]).update(OWNER, VISITS, lambda visits: visits + 1)
    assert store.tries == UPDATE_TRIES


async def test_deleting_and_clearing_go_back_to_the_default() -> None:
    profiles = a_profile()
    await profiles.set(OWNER, VISITS, 3)
    await profiles.set(OWNER, NICKNAME, "Al")
    assert [await profiles.delete(OWNER, VISITS), await profiles.delete(OWNER, VISITS)] == [True, False]
    assert [await profiles.clear(OWNER), await profiles.clear(OWNER)] == [1, 0]
    assert await profiles.get(OWNER, VISITS) == 0


async def test_a_key_that_is_not_registered_is_not_found() -> None:
    profiles = a_profile()
    strangers: list[ProfileKey[Any]] = [ProfileKey("age", int, default=0), ProfileKey("visits", str, default="")]
    for stranger in strangers:
        with pytest.raises(ProfileKeyNotFound, match="is not registered; registered: nickname, taste, visits"):
            await profiles.get(OWNER, stranger)
        with pytest.raises(ProfileKeyNotFound):
            await profiles.set(OWNER, stranger, stranger.default())
        with pytest.raises(ProfileKeyNotFound):
            await profiles.update(OWNER, stranger, lambda value: value)
        with pytest.raises(ProfileKeyNotFound):
            await profiles.delete(OWNER, stranger)


async def test_a_stored_value_of_another_type_is_never_taken_for_one_of_the_key() -> None:
    store = SqliteProfileStore()
    await store.write(OWNER, "visits", "many")
    with pytest.raises(ProfileUnreadable, match="'visits' holds what is not of its type"):
        await Profiles(store, [VISITS]).get(OWNER, VISITS)


def test_two_keys_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two profile keys are called 'visits'"):
        Profiles(SqliteProfileStore(), [VISITS, ProfileKey("visits", str, default="")])
    Profiles(SqliteProfileStore(), [VISITS, VISITS])


@pytest.mark.parametrize(
    ("key", "type", "default"), [("", int, 0), ("age", int, "old"), ("age", int, None), ("thing", object, object())]
)
def test_a_key_that_cannot_be_kept_is_refused(key: str, type: type[object], default: object) -> None:
    with pytest.raises(ConfigurationError, match=f"profile key {key!r}: "):
        ProfileKey(key, type, default=default)


async def test_a_thread_waits_for_what_the_event_loop_asks() -> None:
    profiles = a_profile()
    await profiles.set(OWNER, VISITS, 3)
    assert await asyncio.to_thread(lambda: profiles.wait(profiles.get(OWNER, VISITS))) == 3


def test_without_an_event_loop_waiting_works_all_the_same() -> None:
    """As in a unit test of a sync tool."""
    profiles = a_profile()
    profiles.wait(profiles.set(OWNER, VISITS, 3))
    assert profiles.wait(profiles.get(OWNER, VISITS)) == 3


async def test_an_event_loop_does_not_wait_for_itself() -> None:
    profiles = a_profile()
    with pytest.raises(CallerError, match="would wait for itself here: write await"):
        profiles.wait(profiles.get(OWNER, VISITS))


async def test_profiles_without_a_store_say_what_is_missing() -> None:
    nowhere = Profiles()
    with pytest.raises(ProfileKeyNotFound, match="'visits' is not registered; registered: none; give the registry"):
        await nowhere.get(OWNER, VISITS)
    with pytest.raises(ConfigurationError, match="there are no profiles here: give the registry profile_keys="):
        await nowhere.clear(OWNER)
