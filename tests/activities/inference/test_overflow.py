"""A conversation that is longer than its model's window: it is cut until it fits, whatever the agent's policy."""

import pytest
from temporalio.exceptions import ApplicationError

from tests.activities.wiring import activities, cache_of, environment
from tests.context.conversations import assistant, result, user
from tests.loop.provider_rules import check_anthropic
from wakeful import Agent, ContextPolicy, ModelRequest, ModelResponse, ProviderError, ProviderErrorKind, Registry
from wakeful.authoring.provider import AnyProvider
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.messages import Message
from wakeful.contract.transcript import EMPTY_DIGEST, chained

WORDS = "words and words. " * 60
POLICY = ContextPolicy(max_context_tokens=150_000)


class Small:
    """A model with a window of so many characters."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        if sum(len(message.text) for message in request.messages) > self.window:
            raise ProviderError(ProviderErrorKind.CONTEXT_OVERFLOW, "the maximum context length is exceeded")
        return ModelResponse(model=request.model, text="hello")


async def infer(model: AnyProvider, messages: list[Message], policy: ContextPolicy | None) -> ModelResponse:
    registry = Registry(agents=[Agent(id="a", model="m", context=policy)], models={"m": model})
    resolved = registry.resolve("a")
    digest = EMPTY_DIGEST
    for message in messages:
        digest = chained(digest, message)
    input = InferInput(
        agent=resolved.digest(),
        transcript=TranscriptRef(length=len(messages), digest=digest),
        appended=tuple(messages),
    )
    with activities(registry, cache_of(resolved)) as made:
        return await environment().run(made.infer.infer, input)


def talk(turns: int) -> list[Message]:
    said = [user("u0", "Plan my trip.")]
    for turn in range(turns):
        said += [assistant(f"a{turn}", WORDS), user(f"u{turn + 1}", f"{turn}: {WORDS}")]
    return said


@pytest.mark.parametrize("policy", [None, POLICY], ids=["no policy", "a policy with another window"])
@pytest.mark.parametrize("window", [30_000, 9_000, 4_000])
async def test_a_conversation_that_overflows_is_cut_until_it_fits(window: int, policy: ContextPolicy | None) -> None:
    model, said = Small(window), talk(40)
    response = await infer(model, said, policy)
    assert response.text == "hello"
    assert response.context is not None
    assert response.context.limit is not None
    assert response.context.dropped > 0
    assert len(model.requests) <= 6
    sent = model.requests[-1].messages
    assert sent[-1].text == said[-1].text
    check_anthropic(sent)


async def test_a_conversation_that_fits_is_sent_whole_and_reports_nothing() -> None:
    model, said = Small(10**9), talk(40)
    response = await infer(model, said, None)
    assert [message.text for message in model.requests[0].messages] == [message.text for message in said]
    assert response.context is None


async def test_a_single_message_that_is_longer_than_the_window_is_cut() -> None:
    model = Small(4_000)
    await infer(model, [user("u", f"Sum this up. {WORDS * 30} Thank you.")], None)
    [message] = model.requests[-1].messages
    assert message.text.startswith("Sum this up. ")
    assert message.text.endswith(" Thank you.")
    assert "characters are left out here" in message.text


async def test_a_request_that_begins_in_the_middle_of_a_run_repeats_what_the_user_asked_for() -> None:
    model, said = Small(12_000), [user("u", "Count the words.")]
    for number in range(40):
        said += [assistant(f"a{number}", calls=[f"c{number}"]), result(f"c{number}", WORDS)]
    await infer(model, said, None)
    first, second, *_ = model.requests[-1].messages
    assert first.text.startswith("[Earlier messages of this conversation are not shown.]")
    assert first.text.endswith("\n\nCount the words.")
    assert second.tool_calls
    check_anthropic(model.requests[-1].messages)


async def test_a_request_that_cannot_be_shorter_fails_with_the_providers_message() -> None:
    model = Small(0)
    with pytest.raises(ApplicationError) as failed:
        await infer(model, [user("u", "Hi.")], None)
    assert (failed.value.type, failed.value.non_retryable) == ("context_overflow", True)
    assert "the maximum context length is exceeded" in failed.value.message
    assert len(model.requests) == 1
