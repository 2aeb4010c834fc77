"""Which profile store a worker uses, by the address in `WAKEFUL_PROFILES`.

memory:                                   gone with the process; for tests
sqlite:/var/lib/wakeful/profiles.db       a file, for the workers of one machine
postgresql://user:password@host/database  for workers on several machines; needs the extra `postgres`

Without the variable it is the file `.wakeful/profiles.db` in the working directory, made at the first use.
"""

from collections.abc import Mapping
from pathlib import Path

from wakeful.contract.errors import ConfigurationError
from wakeful.profile_stores.postgres import PostgresProfileStore
from wakeful.profile_stores.sqlite import SqliteProfileStore
from wakeful.profiles import ProfileStore

VARIABLE = "WAKEFUL_PROFILES"
DEFAULT = "sqlite:.wakeful/profiles.db"


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
