"""`AzureOpenAIChat` and `AzureOpenAIResponses`: the address, the header, the version, and what is missing."""

import httpx
import pytest

from tests.activities.providers.calls import HELLO, failure, parts
from tests.support.fake_provider.asked import Asked
from tests.support.fake_provider.official import problem
from tests.support.fake_provider.script import Answer, Raw, Status
from tests.support.fake_provider.server import FakeProvider
from wakeful.authoring.provider import StreamingProvider
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import OutputSpec, StopReason
from wakeful.contract.model_settings import ModelSettings
from wakeful.contract.streaming import StopPart, TextPart
from wakeful_activities.providers.azure.provider import AzureOpenAIChat, AzureOpenAIResponses

KEY = "azure-key-1f6b2c9d"
OUTPUT = OutputSpec(name="N", json_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
Azure = type[AzureOpenAIChat] | type[AzureOpenAIResponses]


async def asked(provider: StreamingProvider, fake: FakeProvider) -> Asked:
    fake.will(Answer("Hello."))
    request = HELLO.model_copy(update={"settings": ModelSettings(max_tokens=50), "output": OUTPUT})
    answer = await parts(provider, request)
    assert (answer[1], answer[-1]) == (TextPart("Hello."), StopPart(StopReason.END_TURN))
    assert problem(fake.asked[0]) is None
    return fake.asked[0]


@pytest.mark.parametrize(
    ("azure", "version", "path"),
    [
        (AzureOpenAIChat, None, "/openai/v1/chat/completions"),
        (AzureOpenAIChat, "2024-10-21", "/openai/deployments/test-model/chat/completions"),
        (AzureOpenAIResponses, None, "/openai/v1/responses"),
        (AzureOpenAIResponses, "2025-04-01-preview", "/openai/responses"),
    ],
)
@pytest.mark.parametrize("suffix", ["", "/", "/openai/v1/"])
async def test_a_deployment_is_called_by_the_address_the_version_and_the_key_of_its_resource(
    azure: Azure, version: str | None, path: str, suffix: str, fake: FakeProvider, http: httpx.AsyncClient
) -> None:
    provider = azure(api_key=KEY, endpoint=f"http://{fake.host}{suffix}", api_version=version, client=http)
    request = await asked(provider, fake)
    assert (request.path, request.query) == (path, f"api-version={version}" if version else "")
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers


async def test_the_newer_names_and_strict_output_types_of_openai_are_used(
    fake: FakeProvider, http: httpx.AsyncClient
) -> None:
    endpoint = f"http://{fake.host}"
    body = (await asked(AzureOpenAIChat(api_key=KEY, endpoint=endpoint, client=http), fake)).body
    assert body["max_completion_tokens"] == 50
    assert body["response_format"]["json_schema"]["strict"] is True


async def test_the_environment_names_the_resource(fake: FakeProvider) -> None:
    environ = {
        "AZURE_OPENAI_API_KEY": KEY,
        "AZURE_OPENAI_ENDPOINT": f"http://{fake.host}",
        "OPENAI_API_VERSION": "2024-10-21",
    }
    provider = AzureOpenAIChat.from_env(environ)
    assert (await asked(provider, fake)).query == "api-version=2024-10-21"
    await provider.aclose()


@pytest.mark.parametrize("azure", [AzureOpenAIChat, AzureOpenAIResponses])
@pytest.mark.parametrize(
    ("environ", "missing"),
    [({}, "AZURE_OPENAI_ENDPOINT"), ({"AZURE_OPENAI_ENDPOINT": "https://x.example"}, "AZURE_OPENAI_API_KEY")],
)
async def test_a_call_without_its_settings_says_which_is_missing(
    azure: Azure, environ: dict[str, str], missing: str
) -> None:
    problem = f"deployment 'test-model' of Azure OpenAI needs {missing} in the worker's environment"
    with pytest.raises(ProviderError, match=problem) as error:
        await parts(azure.from_env(environ))
    assert error.value.kind is ProviderErrorKind.UNAUTHORIZED


async def test_a_prompt_that_azure_filters_is_filtered_content(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    provider = AzureOpenAIChat(api_key=KEY, endpoint=f"http://{fake.host}", client=http)
    reply = Raw.json({"error": {"code": "content_filter", "message": "The response was filtered"}}, code=400)
    assert (await failure(provider, fake, reply)).kind is ProviderErrorKind.CONTENT_FILTERED


async def test_no_message_quotes_the_key(fake: FakeProvider, http: httpx.AsyncClient) -> None:
    provider = AzureOpenAIChat(api_key=KEY, endpoint=f"http://{fake.host}", client=http)
    error = await failure(provider, fake, Status(401, message=f"{KEY} is not a key"))
    assert "'[api key] is not a key'" in str(error)
