"""Profiles: what is known across threads, as JSON values with revisions, by owner and key.

Tools and hooks use `Profiles`, which knows types. Where the values are is a `ProfileStore`'s business; the stores that
come along are in `wakeful.profile_stores`. Nothing here reaches history: what a run depends on, it is told by a tool.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, overload

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, to_json

from wakeful.contract.errors import CallerError, ConfigurationError, WakefulError

T = TypeVar("T")

SYSTEM = "system"
"""The owner of what belongs to no agent."""

NAME_LIMIT = 1000
"""Bytes of an owner or of a key; both are in one index, and PostgreSQL's entries have 2,700."""

WAIT_SECONDS = 60.0
"""How long a thread waits for the event loop; stores give up before."""

UPDATE_TRIES = 100
"""How often an update is tried anew when somebody else has written meanwhile."""


def agent_owner(name: str) -> str:
    """The owner of what belongs to an agent, on every thread."""
    return f"agent:{name}"


def thread_owner(thread_id: str) -> str:
    """The owner of what belongs to a thread, for other threads to read."""
    return f"thread::{thread_id}"


class ProfileConflict(WakefulError):
    """Somebody else has written, or deleted, the value meanwhile; nothing has changed. Read it and decide again."""

    def __init__(self, owner: str, key: str, *, expected: int, found: int) -> None:
        super().__init__(f"profile {key!r} of {owner!r} is at revision {found}, not at {expected}: read it again")
        self.owner = owner
        self.key = key
        self.expected = expected
        self.found = found
        """0 if there is no value."""


class ProfileKeyNotFound(CallerError):
    """The key was not registered with these profiles."""


class ProfileUnreadable(WakefulError):
    """A stored value is not of its key's type."""


class ProfileStoreFailed(WakefulError):
    """The store cannot be reached, or cannot do what it is for."""


@dataclass(frozen=True)
class ProfileEntry:
    """A value as it is stored. Revisions only grow, also when a value is deleted and written again."""

    key: str
    value: JsonValue
    revision: int


class ProfileStore(Protocol):
    """Where profiles are. Every call is atomic, for every worker that shares the store.

    An owner is any text: `agent:<name>`, `system`, `global`, `thread::<id>`, or one of your own.
    """

    async def read(self, owner: str, key: str) -> ProfileEntry | None: ...

    async def write(self, owner: str, key: str, value: JsonValue, *, expected_revision: int | None = None) -> int:
        """Write the value and return its revision.

        Args:
            expected_revision: write only if the stored value is still at this revision; 0 if there must be none.

        Raises:
            ProfileConflict: it is not.
        """
        ...

    async def delete(self, owner: str, key: str) -> bool:
        """Whether there was a value."""
        ...

    async def list(self, owner: str) -> tuple[ProfileEntry, ...]:
        """Everything the owner has, by key."""
        ...

    async def clear(self, owner: str) -> int:
        """Delete everything the owner has, and return how many values that were."""
        ...

    async def aclose(self) -> None: ...


class ProfileKey(Generic[T]):
    """A key with its type: `ProfileKey("tone", str, default="friendly")`.

    Values are kept as JSON, so the type is one that pydantic can write and read back.

    Raises:
        ConfigurationError: the name cannot be stored, or the default is not of the type.
    """

    @overload
    def __init__(self, key: str, type: type[T], *, default: T) -> None: ...
    @overload
    def __init__(self: "ProfileKey[Any]", key: str, type: Any, *, default: Any) -> None: ...
    def __init__(self, key: str, type: Any, *, default: T) -> None:
        self.key = key
        try:
            check_names(key=key)
            self._adapter: TypeAdapter[T] = TypeAdapter(type)
            self._default = self.written(default)
            self.value(self._default)
        except (CallerError, ProfileUnreadable, PydanticUserError, PydanticSerializationError) as error:
            raise ConfigurationError([f"profile key {key!r}: {error}"]) from error

    def default(self) -> T:
        """A default of the caller's own: changing it changes nobody else's."""
        return self.value(self._default)

    def value(self, stored: JsonValue) -> T:
        """The value that its JSON stands for.

        Raises:
            ProfileUnreadable: it is of another type: the key meant something else when it was written.
        """
        try:
            return self._adapter.validate_json(to_json(stored))
        except ValidationError as error:
            raise ProfileUnreadable(f"profile key {self.key!r} holds what is not of its type: {error}") from error

    def written(self, value: T) -> JsonValue:
        """The value as JSON."""
        written: JsonValue = json.loads(self._adapter.dump_json(value, warnings="error"))
        return written


class Profiles:
    """Typed access to a store, with the keys that were registered. Without a store, every use of it is an error.

    Raises:
        ConfigurationError: two keys have the same name.
    """

    def __init__(self, store: ProfileStore | None = None, keys: Sequence[ProfileKey[Any]] = ()) -> None:
        self._store_or_none = store
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # made outside of any
            self._loop = None
        self._keys = {key.key: key for key in keys}
        names = [key.key for key in keys if self._keys[key.key] is not key]
        if names:
            raise ConfigurationError([f"two profile keys are called {name!r}" for name in names])

    async def get(self, owner: str, key: ProfileKey[T]) -> T:
        """The owner's value, or the key's default.

        Raises:
            ProfileKeyNotFound: the key was not registered.
        """
        return (await self._read(owner, key))[0]

    async def set(self, owner: str, key: ProfileKey[T], value: T) -> None:
        """Put this value in the place of whatever is there."""
        self._check(key)
        await self._store.write(owner, key.key, key.written(value))

    async def update(self, owner: str, key: ProfileKey[T], change: Callable[[T], T]) -> T:
        """Make a new value of the old one, and no update of anybody is lost.

        `change` is called again when somebody else has written meanwhile. A tool that is retried updates again.

        Raises:
            ProfileConflict: others were faster again and again.
        """
        for _ in range(UPDATE_TRIES - 1):
            try:
                return await self._update(owner, key, change)
            except ProfileConflict:
                continue
        return await self._update(owner, key, change)

    async def delete(self, owner: str, key: ProfileKey[Any]) -> bool:
        """Whether there was a value; without one nothing happens."""
        self._check(key)
        return await self._store.delete(owner, key.key)

    async def clear(self, owner: str) -> int:
        """Delete everything the owner has, of every key, registered or not."""
        return await self._store.clear(owner)

    def wait(self, asked: Coroutine[Any, Any, T]) -> T:
        """For sync tools and hooks, which run in a thread: `ctx.profiles.wait(ctx.profiles.get(owner, KEY))`.

        Raises:
            CallerError: it was called where it would wait for itself; there, `await` does it.
            ProfileStoreFailed: it took longer than a minute.
        """
        if _is_in_event_loop():
            asked.close()
            raise CallerError("profiles.wait is for threads, and would wait for itself here: write await")
        if self._loop is None:
            return asyncio.run(asked)
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return future.result(WAIT_SECONDS)
        except TimeoutError as error:
            if future.done():
                raise
            future.cancel()
            raise ProfileStoreFailed(f"the profile store did not answer within {WAIT_SECONDS:g} s") from error

    @property
    def _store(self) -> ProfileStore:
        if self._store_or_none is None:
            raise ConfigurationError(["there are no profiles here: give the registry profile_keys=[…]"])
        return self._store_or_none

    async def _update(self, owner: str, key: ProfileKey[T], change: Callable[[T], T]) -> T:
        value, revision = await self._read(owner, key)
        changed = change(value)
        await self._store.write(owner, key.key, key.written(changed), expected_revision=revision)
        return changed

    async def _read(self, owner: str, key: ProfileKey[T]) -> tuple[T, int]:
        self._check(key)
        entry = await self._store.read(owner, key.key)
        return (key.default(), 0) if entry is None else (key.value(entry.value), entry.revision)

    def _check(self, key: ProfileKey[Any]) -> None:
        if self._keys.get(key.key) is not key:
            known = ", ".join(sorted(self._keys)) or "none; give the registry profile_keys=[…]"
            raise ProfileKeyNotFound(f"profile key {key.key!r} is not registered; registered: {known}")


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def check_names(**names: str) -> None:
    """Refuse an owner or a key that not every store can keep.

    Raises:
        CallerError: it is empty, too long, or holds characters that are no text.
    """
    for what, name in names.items():
        if not name:
            raise CallerError(f"the {what} of a profile is empty")
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise CallerError(f"the {what} {name!r} of a profile is no text: {error.reason}") from error
        if "\x00" in name:
            raise CallerError(f"the {what} {name!r} of a profile holds a NUL character")
        if size > NAME_LIMIT:
            raise CallerError(f"the {what} {name[:40]!r}… of a profile has {size} bytes; at most {NAME_LIMIT} are kept")


def as_text(value: JsonValue) -> str:
    """A value as stores keep it: JSON in ASCII, which every encoding and every database takes.

    Raises:
        CallerError: it is not JSON.
    """
    try:
        return json.dumps(_JSON.validate_python(value), allow_nan=False, separators=(",", ":"))
    except (ValidationError, ValueError) as error:
        raise CallerError(f"a profile's value must be JSON: {error}") from error


def from_text(text: str) -> JsonValue:
    """The value that `as_text` wrote."""
    value: JsonValue = json.loads(text)
    return value


_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
