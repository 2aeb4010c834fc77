"""Azure OpenAI: the APIs of OpenAI at an address, with a header and with versions of Azure's own.

The name of a model is the name of its deployment. Requests and answers are those of `openai_chat` and
`openai_responses`.
"""

from collections.abc import Mapping, Sequence
from typing import Self

import httpx

from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful_activities.providers.openai_chat.provider import OpenAIChat
from wakeful_activities.providers.openai_responses.provider import OpenAIResponses
from wakeful_activities.providers.shared.failures import Endpoint
from wakeful_activities.providers.shared.http import HttpProvider

EXAMPLE_URL = "https://your-resource.openai.azure.com"


class _AzureResource(HttpProvider):
    """A resource of Azure OpenAI.

    Args:
        api_key: the key; or `env:NAME` or `file:/path`, which is read at each call; or None if `client` signs in.
        endpoint: the address of the resource, such as `https://name.openai.azure.com`.
        api_version: Azure's version of the API, such as `2024-10-21`; None for the v1 API, which needs none.
        timeout: the seconds that one complete answer may take.
        client: an HTTP client to share, for instance with an `auth` for Entra ID; you close it yourself.

    Raises:
        ConfigurationError: the key or the endpoint is not usable.
    """

    home = EXAMPLE_URL
    key_variable = "AZURE_OPENAI_API_KEY"
    url_variable = "AZURE_OPENAI_ENDPOINT"
    version_variable = "OPENAI_API_VERSION"
    gen_ai_provider = "azure.ai.openai"

    def __init__(
        self,
        *,
        api_key: str | None,
        endpoint: str | None,
        api_version: str | None = None,
        timeout: float = 600,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(
            api_key=api_key, base_url=_base_url(endpoint or EXAMPLE_URL, api_version), timeout=timeout, client=client
        )
        self._has_endpoint = endpoint is not None
        self._api_version = api_version

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """The resource that the environment names; without one, every call says what is missing."""
        return cls(
            api_key=environ.get(cls.key_variable),
            endpoint=environ.get(cls.url_variable, "").strip() or None,
            api_version=environ.get(cls.version_variable, "").strip() or None,
        )

    def _headers(self, key: str | None) -> dict[str, str]:
        return {"api-key": key} if key else {}

    def _check_setup(self, endpoint: Endpoint) -> None:
        variable = None if self._has_endpoint else self.url_variable
        if variable is None and endpoint.api_key is None and self._shared_client is None:
            variable = self.key_variable
        if variable is not None:
            problem = f"deployment {endpoint.model!r} of Azure OpenAI needs {variable} in the worker's environment"
            raise ProviderError(ProviderErrorKind.UNAUTHORIZED, problem)

    async def unknown_models(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """None: a resource lists the models that it could deploy, and not its deployments. The key is checked.

        Raises:
            ProviderError: the API cannot be reached, or rejects the key.
        """
        await super().unknown_models(names[:0])
        return None


class AzureOpenAIChat(_AzureResource, OpenAIChat):
    """Deployments of Azure OpenAI behind its Chat Completions API."""

    @property
    def _is_openai(self) -> bool:
        return True  # a resource may have a domain of its own

    def _url_for(self, model: str) -> httpx.URL:
        if self._api_version is None:
            return self._url
        path = self._url.path.removesuffix(self.path)
        return self._url.copy_with(path=f"{path}/deployments/{model}{self.path}")


class AzureOpenAIResponses(_AzureResource, OpenAIResponses):
    """Deployments of Azure OpenAI behind its Responses API."""


def _base_url(endpoint: str, api_version: str | None) -> str:
    """The URL of the API; users copy the endpoint with its path or without it."""
    resource = endpoint.rstrip("/").removesuffix("/v1").removesuffix("/openai")
    return f"{resource}/openai/v1" if api_version is None else f"{resource}/openai?api-version={api_version}"
