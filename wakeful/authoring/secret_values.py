"""Read the values of secrets in the process that needs them."""

import os
from collections.abc import Mapping
from pathlib import Path

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.remote import Secret


def read_secret(secret: Secret, environ: Mapping[str, str] | None = None) -> str:
    """The secret's value.

    Raises:
        ConfigurationError: this process does not have it. The message names the place, never a value.
    """
    if secret.env is not None:
        value = (os.environ if environ is None else environ).get(secret.env, "")
    else:
        assert secret.file is not None  # a secret is in one place
        try:
            value = Path(secret.file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ConfigurationError([f"the secret in {secret} cannot be read: {reason}"]) from None
    if not value:
        raise ConfigurationError([f"the secret in {secret} is missing or empty: set it where this process runs"])
    return value
