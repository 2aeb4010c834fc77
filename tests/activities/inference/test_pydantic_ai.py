"""A model of pydantic-ai on the real path: its answers are continued, and its reasoning is sent back."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from temporalio.client import Client as TemporalClient

from tests.support.fake_provider.models import continuing
from tests.support.fake_provider.script import Answer, Call, Cut, End, Fault, Status
from tests.support.fake_provider.server import FakeProvider
from tests.support.provider_app import CANARY, RETRY, Sum, add
from wakeful import Agent, AzureOpenAIChat, ModelRequest, ModelResponse, OpenAIChat, PydanticAIModel, Registry
from wakeful.client.client import Client
from wakeful.contract.agents import ModelBinding
from wakeful.worker import WorkerSettings, running_worker
from wakeful_activities.inference.chat_telemetry import provider_name

TEXT = "Foxes jump over the lazy dog, again and again, until it dawns and nobody counts any more."


@pytest.fixture(scope="module")
async def client(temporal: TemporalClient, fake: FakeProvider) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(trust_env=False) as http:
        openai = OpenAIProvider(base_url=fake.chat_url, api_key=CANARY, http_client=http)
        anthropic = AnthropicProvider(base_url=fake.anthropic_url, api_key=CANARY, http_client=http)
        registry = Registry(
            agents=[
                Agent(id="chat", model="gpt", retry=RETRY),
                Agent(id="thinker", model="claude", tools=[add], retry=RETRY),
                Agent(id="typed", model="gpt", output=Sum, retry=RETRY),
            ],
            models={
                "gpt": PydanticAIModel(OpenAIChatModel("gpt-5-mini", provider=openai)),
                "claude": PydanticAIModel(AnthropicModel("claude-opus-5", provider=anthropic)),
            },
        )
        settings = WorkerSettings(task_queue="pydantic-ai")
        async with running_worker(temporal, registry, settings), Client(temporal, task_queue="pydantic-ai") as client:
            yield client


@pytest.mark.parametrize("fault", [End(4), Cut(4)], ids=["a clean end", "a lost connection"])
async def test_an_answer_that_was_cut_off_is_continued(
    client: Client, provider: FakeProvider, fault: Fault, thread_id: str
) -> None:
    provider.will(Answer(TEXT, faults=(fault,)), continuing(Answer(TEXT)))
    result = await client.run("chat", "Tell me.", thread_id=thread_id)
    assert (result.status_reason, result.response) == ("natural", TEXT)
    assert len(provider.asked) == 2
    assert provider.asked[1].turns[-2].text == TEXT[:32]


async def test_calls_are_executed_and_their_results_follow_the_signed_reasoning(
    client: Client, provider: FakeProvider, thread_id: str
) -> None:
    calls = (Call("toolu_1", "add", '{"a": 1, "b": 2}'), Call("toolu_2", "add", '{"a": 3, "b": 4}'))
    provider.will(Answer("One moment.", "I add.", calls=calls), Answer("3 and 7."))
    result = await client.run("thinker", "Add.", thread_id=thread_id)
    assert result.response == "3 and 7."
    answer, results = provider.asked[1].body["messages"][1:]
    assert answer["content"][0] == {
        "type": "thinking",
        "thinking": "I add.",
        "signature": "signature-of-the-reasoning",
    }
    assert [block["tool_use_id"] for block in results["content"]] == ["toolu_1", "toolu_2"]
    assert [block["content"][0]["text"] for block in results["content"]] == ["3", "7"]


async def test_an_output_type_is_enforced_and_an_error_ends_the_run_without_its_key(
    client: Client, provider: FakeProvider, thread_id: str
) -> None:
    provider.will(Answer('{"total": 4}'), Status(401, message=f"who is {CANARY}?"))
    result = await client.run("typed", "Add.", thread_id=thread_id)
    assert result.output == {"total": 4}
    assert provider.asked[0].body["response_format"]["json_schema"]["strict"] is True
    failed = await client.run("chat", "Add.", thread_id=f"{thread_id}-2")
    assert "answered 401: 'who is [api key]?'" in str(failed.status_reason)
    assert not provider.violations


@pytest.mark.parametrize(
    ("provider", "name", "called"),
    [
        ("pydantic-ai", "google:gemini-2.5-pro", "gcp.gemini"),
        ("pydantic-ai", "groq:llama", "groq"),
        ("azure-responses", "deployment", "azure.ai.openai"),
        ("anthropic", "claude", "anthropic"),
    ],
)
def test_spans_and_metrics_name_providers_as_the_conventions_do(provider: str, name: str, called: str) -> None:
    assert provider_name(ModelBinding(id="m", provider=provider, name=name)) == called


def test_a_provider_has_its_vendor_s_name_whatever_the_registry_calls_it() -> None:
    """At another address, the registry's name says more than that of the API."""
    named = ModelBinding(id="m", provider="team-a", name="gpt")

    class OfOnesOwn:
        gen_ai_provider = "cohere"

        async def complete(self, request: ModelRequest) -> ModelResponse:
            raise NotImplementedError

    assert provider_name(named, OpenAIChat(api_key="k")) == "openai"
    assert (
        provider_name(named, AzureOpenAIChat(api_key="k", endpoint="https://x.openai.azure.com")) == "azure.ai.openai"
    )
    assert provider_name(named, OpenAIChat(api_key=None, base_url="http://localhost:11434/v1")) == "team-a"
    assert provider_name(named, OfOnesOwn()) == "cohere"
