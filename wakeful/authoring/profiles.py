"""Profiles: JSON values that threads share. Each has an owner, a key and a revision.

Tools and hooks use `Profiles`, which is typed; a `ProfileStore` holds the values. The built-in stores are in
`wakeful.profile_stores`. Profiles are not part of workflow history: a run sees them only through its tools and hooks.
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
"""The owner of data that belongs to no agent."""

NAME_LIMIT = 1000
"""Bytes of an owner or a key. Both are in one index, whose entries have at most 2,700 bytes in PostgreSQL."""

WAIT_SECONDS = 60.0
"""How long `wait` blocks its thread; stores time out earlier."""

UPDATE_ATTEMPTS = 100
"""How often `update` is attempted when concurrent writes conflict with it."""


def agent_owner(name: str) -> str:
    """The owner of an agent's data, on every thread."""
    return f"agent:{name}"


def thread_owner(thread_id: str) -> str:
    """The owner of a thread's data, which other threads can read."""
    return f"thread::{thread_id}"


class ProfileConflict(WakefulError):
    """A concurrent write or delete changed the value first; yours was not applied. Read it again and retry."""

    def __init__(self, owner: str, key: str, *, expected: int, found: int) -> None:
        super().__init__(f"profile {key!r} of {owner!r} is at revision {found}, not {expected}: read it again")
        self.owner = owner
        self.key = key
        self.expected = expected
        self.found = found
        """The stored revision; 0 if there is no value."""


class ProfileKeyNotFound(CallerError):
    """The key was not registered with these profiles."""


class ProfileUnreadable(WakefulError):
    """A stored value is not of its key's type."""


class ProfileStoreFailed(WakefulError):
    """The store is unreachable or failed."""


@dataclass(frozen=True)
class ProfileEntry:
    """A stored value. Revisions only increase, even if the value is deleted and written again."""

    key: str
    value: JsonValue
    revision: int


class ProfileStore(Protocol):
    """A store for profiles. Every call is atomic across all workers that share the store.

    An owner is any string: `agent:<name>`, `system`, `global`, `thread::<id>`, or one of your own.
    """

    async def read(self, owner: str, key: str) -> ProfileEntry | None: ...

    async def write(self, owner: str, key: str, value: JsonValue, *, expected_revision: int | None = None) -> int:
        """Write the value and return its revision.

        Args:
            expected_revision: write only if the stored value has this revision; 0 means that there must be no value.

        Raises:
            ProfileConflict: the revision is different.
        """
        ...

    async def delete(self, owner: str, key: str) -> bool:
        """Delete the value and return whether there was one."""
        ...

    async def list(self, owner: str) -> tuple[ProfileEntry, ...]:
        """All values of the owner, sorted by key."""
        ...

    async def clear(self, owner: str) -> int:
        """Delete all values of the owner and return how many there were."""
        ...

    async def aclose(self) -> None: ...


class ProfileKey(Generic[T]):
    """A key with its type: `ProfileKey("tone", str, default="friendly")`.

    Values are stored as JSON, so use a type that pydantic can serialize and read back.

    Raises:
        ConfigurationError: the name is invalid, or the default is not of the type.
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
        """A new copy of the default, which the caller may modify."""
        return self.value(self._default)

    def value(self, stored: JsonValue) -> T:
        """A stored value in the key's type.

        Raises:
            ProfileUnreadable: it is not of the type, for example because the type has changed since it was written.
        """
        try:
            return self._adapter.validate_json(to_json(stored))
        except ValidationError as error:
            raise ProfileUnreadable(
                f"the stored value of profile key {self.key!r} is not of its type: {error}"
            ) from error

    def written(self, value: T) -> JsonValue:
        """The value as JSON."""
        written: JsonValue = json.loads(self._adapter.dump_json(value, warnings="error"))
        return written


class Profiles:
    """Typed access to a store through registered keys. Without a store, every use raises `ConfigurationError`.

    Raises:
        ConfigurationError: two keys have the same name.
    """

    def __init__(self, store: ProfileStore | None = None, keys: Sequence[ProfileKey[Any]] = ()) -> None:
        self._store_or_none = store
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # constructed outside of an event loop
            self._loop = None
        self._keys = {key.key: key for key in keys}
        names = [key.key for key in keys if self._keys[key.key] is not key]
        if names:
            raise ConfigurationError([f"two profile keys have the name {name!r}" for name in names])

    async def get(self, owner: str, key: ProfileKey[T]) -> T:
        """The owner's value, or the key's default.

        Raises:
            ProfileKeyNotFound: the key was not registered.
        """
        return (await self._read(owner, key))[0]

    async def set(self, owner: str, key: ProfileKey[T], value: T) -> None:
        """Write the value, whatever is stored."""
        self._check(key)
        await self._store.write(owner, key.key, key.written(value))

    async def update(self, owner: str, key: ProfileKey[T], change: Callable[[T], T]) -> T:
        """Compute a new value from the stored one, and write it; no concurrent update is lost.

        `change` is called again if a concurrent write comes first. A tool that is retried updates again.

        Raises:
            ProfileConflict: concurrent writes came first in every attempt.
        """
        for _ in range(UPDATE_ATTEMPTS - 1):
            try:
                return await self._update(owner, key, change)
            except ProfileConflict:
                continue
        return await self._update(owner, key, change)

    async def delete(self, owner: str, key: ProfileKey[Any]) -> bool:
        """Delete the value and return whether there was one."""
        self._check(key)
        return await self._store.delete(owner, key.key)

    async def clear(self, owner: str) -> int:
        """Delete all values of the owner, also those of unregistered keys, and return how many there were."""
        return await self._store.clear(owner)

    def wait(self, operation: Coroutine[Any, Any, T]) -> T:
        """Run an operation from a sync tool or hook, which runs in a thread.

        For example `ctx.profiles.wait(ctx.profiles.get(owner, KEY))`.

        Raises:
            CallerError: it was called in the event loop, where it would deadlock; use `await` there.
            ProfileStoreFailed: the operation took longer than a minute.
        """
        if _is_in_event_loop():
            operation.close()
            raise CallerError("profiles.wait would deadlock in the event loop: use await")
        if self._loop is None:
            return asyncio.run(operation)
        future = asyncio.run_coroutine_threadsafe(operation, self._loop)
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
            raise ConfigurationError(["profiles are not configured: pass profile_keys=[…] to the registry"])
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
            known = ", ".join(sorted(self._keys)) or "none; pass profile_keys=[…] to the registry"
            raise ProfileKeyNotFound(f"profile key {key.key!r} is not registered; registered: {known}")


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def check_names(**names: str) -> None:
    """Check that every store can hold these owners and keys.

    Raises:
        CallerError: a name is empty or too long, or has characters that cannot be stored.
    """
    for what, name in names.items():
        if not name:
            raise CallerError(f"the {what} of a profile is empty")
        try:
            size = len(name.encode())
        except UnicodeEncodeError as error:
            raise CallerError(f"the {what} {name!r} of a profile is not valid Unicode: {error.reason}") from error
        if "\x00" in name:
            raise CallerError(f"the {what} {name!r} of a profile has a NUL character")
        if size > NAME_LIMIT:
            raise CallerError(f"the {what} {name[:40]!r}… of a profile has {size} bytes; the limit is {NAME_LIMIT}")


def as_text(value: JsonValue) -> str:
    """A value as stores hold it: JSON in ASCII, which every database accepts.

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
