"""Which profile store a worker uses, and when it is opened; by the address in `WAKEFUL_PROFILES`.

memory:                                   gone with the process; for tests
sqlite:/var/lib/wakeful/profiles.db       a file, for the workers of one machine
postgresql://user:password@host/database  for workers on several machines; needs the extra `postgres`

Without the variable it is the file `.wakeful/profiles.db` in the working directory, made at the first use.
"""

from collections.abc import Mapping
from pathlib import Path

from wakeful.authoring.profiles import Profiles, ProfileStore
from wakeful.contract.errors import ConfigurationError
from wakeful.profile_stores.postgres import PostgresProfileStore
from wakeful.profile_stores.sqlite import SqliteProfileStore
from wakeful.registry.registry import Registry

VARIABLE = "WAKEFUL_PROFILES"
DEFAULT = "sqlite:.wakeful/profiles.db"


class WorkerProfiles:
    """The profiles of a worker: the registry's keys, and one store, opened when there are keys and closed at the end.

    Args:
        store: whoever gives one closes it; else it is the one that the environment names.
    """

    def __init__(self, registry: Registry, environ: Mapping[str, str], *, store: ProfileStore | None = None) -> None:
        self._registry = registry
        self._environ = environ
        self._given = store
        self._opened: ProfileStore | None = None

    def open(self) -> Profiles:
        """With the keys of this moment: a registry can be replaced.

        Raises:
            ConfigurationError: the environment names no store that is known.
        """
        keys = self._registry.profile_keys
        return Profiles(self._store(), keys) if keys else Profiles()

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()

    def _store(self) -> ProfileStore:
        if self._given is not None:
            return self._given
        if self._opened is None:
            self._opened = profile_store(self._environ)
        return self._opened


def profile_store(environ: Mapping[str, str]) -> ProfileStore:
    """The store that the environment names; nothing is opened yet.

    Raises:
        ConfigurationError: the address is of no store that is known, or a package is missing.
    """
    address = environ.get(VARIABLE) or DEFAULT
    kind, _, rest = address.partition(":")
    if address == "memory:":
        return SqliteProfileStore()
    if kind == "sqlite" and rest:
        return SqliteProfileStore(Path(rest))
    if kind in ("postgresql", "postgres") and rest:
        return PostgresProfileStore(address)
    # The kind alone: an address with a typo may hold a password.
    written = "memory:, sqlite:/path or postgresql://user:password@host/database"
    raise ConfigurationError([f"{VARIABLE} begins with {kind[:20]!r}; write it as {written}"])
