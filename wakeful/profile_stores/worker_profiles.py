"""The profile store of a worker, by the address in `WAKEFUL_PROFILES`.

memory:                                   lost when the process ends; for tests
sqlite:/var/lib/wakeful/profiles.db       a file, for the workers of one machine
postgresql://user:password@host/database  for workers on several machines; needs the extra `postgres`

The default is the file `.wakeful/profiles.db` in the working directory, which is created at the first use.
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
    """The profiles of a worker: the registry's keys, and a store, which is opened if there are keys.

    Args:
        store: the store to use instead of the one in `environ`; it is not closed.
    """

    def __init__(self, registry: Registry, environ: Mapping[str, str], *, store: ProfileStore | None = None) -> None:
        self._registry = registry
        self._environ = environ
        self._given = store
        self._opened: ProfileStore | None = None

    def open(self) -> Profiles:
        """Profiles with the registry's current keys, which a replacement of the registry can change.

        Raises:
            ConfigurationError: the environment names an unknown store.
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
    """The store that the environment names; it connects at the first use.

    Raises:
        ConfigurationError: the address names an unknown store, or a package is missing.
    """
    address = environ.get(VARIABLE) or DEFAULT
    kind, _, rest = address.partition(":")
    if address == "memory:":
        return SqliteProfileStore()
    if kind == "sqlite" and rest:
        return SqliteProfileStore(Path(rest))
    if kind in ("postgresql", "postgres") and rest:
        return PostgresProfileStore(address)
    # Only the kind: an address with a typo may contain a password.
    written = "memory:, sqlite:/path or postgresql://user:password@host/database"
    raise ConfigurationError([f"{VARIABLE} starts with {kind[:20]!r}; write it as {written}"])
