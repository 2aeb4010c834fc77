"""The secrets of an endpoint: read when a request needs them, and removed from whatever a service says."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from wakeful.authoring.secret_values import read_secret, without_secrets
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.remote import Endpoint, Secret


@dataclass(frozen=True, repr=False)
class EndpointSecrets:
    """The headers that sign in, for the origin of the endpoint alone."""

    headers: dict[str, str]
    origin: str

    @classmethod
    def read(cls, endpoint: Endpoint) -> "EndpointSecrets":
        """Read them.

        Raises:
            ConfigurationError: this process does not have one, or no header can have its value.
        """
        headers = {name: _header_value(secret) for name, secret in endpoint.headers.items()}
        if endpoint.token is not None:
            headers["Authorization"] = f"Bearer {_header_value(endpoint.token)}"
        return cls(headers, origin_of(endpoint.url))

    def removed_from(self, text: str) -> str:
        """The text without any of them: a service may repeat what it was sent."""
        return without_secrets(text, (value.removeprefix("Bearer ") for value in self.headers.values()))


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _header_value(secret: Secret) -> str:
    value = read_secret(secret)
    if not value.isascii() or not value.isprintable():
        # The HTTP library would quote it in its error.
        raise ConfigurationError([f"the secret in {secret} has characters that no HTTP header can have"])
    return value
