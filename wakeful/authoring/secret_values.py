"""Read the values of secrets in the process that needs them, and remove them from texts that others see."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from wakeful.contract.errors import ConfigurationError
from wakeful.contract.remote import Secret

SHORTEST_SECRET = 8
"""Characters. What is shorter is a placeholder for a server that needs no key, and may be a part of any word."""


def without_secrets(text: str, secrets: Iterable[str], *, instead: str = "[secret]") -> str:
    """The text without the values of secrets, which a server may repeat in an error; shorter values stay."""
    for value in sorted((value for value in secrets if len(value) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(value, instead)
    return text


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


def secret_headers(
    token: Secret | None, headers: Mapping[str, Secret], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The headers of a request that signs in with a bearer token and other secrets.

    Raises:
        ConfigurationError: this process does not have a secret, or no header can have its value.
    """
    read = {name: (secret, read_secret(secret, environ)) for name, secret in headers.items()}
    if token is not None:
        read["Authorization"] = token, f"Bearer {read_secret(token, environ)}"
    for secret, value in read.values():
        # HTTP libraries quote such a value, or a part of it, in their errors.
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError([f"the secret in {secret} has characters that no HTTP header can have"])
    return {name: value for name, (_, value) in read.items()}
