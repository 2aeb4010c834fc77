"""A provider that rejects content: the thread goes through, and a person can always continue."""

import pytest
from temporalio.exceptions import ApplicationError

from tests.activities.inference.test_overflow import infer
from tests.context.conversations import assistant, result, user
from wakeful import ModelRequest, ModelResponse, ProviderError, ProviderErrorKind
from wakeful.context.rejected import MESSAGE_NOTE
from wakeful.contract.messages import ImageBlock, Message, UrlSource
from wakeful.contract.runs import Usage
from wakeful.contract.transcript import assistant_message

PICTURE = ImageBlock(source=UrlSource(url="https://example.com/p.png"))


class Prudish:
    """A provider that takes no pictures, and nothing awful; or nothing at all."""

    def __init__(self, kind: ProviderErrorKind, *, takes_nothing: bool = False) -> None:
        self.kind = kind
        self.takes_nothing = takes_nothing
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        texts = [message.text for message in request.messages]
        has_picture = any(isinstance(block, ImageBlock) for message in request.messages for block in message.content)
        if self.takes_nothing or has_picture or "awful" in texts:
            raise ProviderError(self.kind, f"rejection {len(self.requests)}")
        return ModelResponse(model=request.model, text="hello", usage=Usage(total_tokens=1))

    @property
    def last(self) -> list[str]:
        return [message.text for message in self.requests[-1].messages]


KINDS = [ProviderErrorKind.INVALID_REQUEST, ProviderErrorKind.CONTENT_FILTERED]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_picture_that_is_rejected_is_left_out_with_a_note(kind: ProviderErrorKind) -> None:
    model = Prudish(kind)
    seen = user("u", "What is this?").model_copy(update={"content": (*user("u", "What is this?").content, PICTURE)})
    response = await infer(model, [seen], None)
    assert (response.text, [each.media_only for each in response.left_out]) == ("hello", [True])
    assert len(model.requests) == 2
    assert model.last[0].startswith("What is this?[A block of type 'image' was left out: the provider rejected it.")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_rejected_message_ends_its_run_and_no_later_one(kind: ProviderErrorKind) -> None:
    model = Prudish(kind)
    said: list[Message] = [user("u0", "awful")]
    with pytest.raises(ApplicationError) as failed:
        await infer(model, said, None)
    assert (failed.value.type, failed.value.non_retryable) == (kind.value, True)
    said.append(user("u1", "Are you there?"))
    response = await infer(model, said, None)
    assert model.last == [MESSAGE_NOTE, "Are you there?"]
    said += [assistant_message(response), user("u2", "Good.")]
    before = len(model.requests)
    await infer(model, said, None)
    assert model.last == [MESSAGE_NOTE, "Are you there?", "hello", "Good."]
    assert len(model.requests) == before + 1  # the answer before has recorded what to leave out


async def test_a_rejected_result_of_a_tool_does_not_end_the_run() -> None:
    model = Prudish(ProviderErrorKind.CONTENT_FILTERED)
    said = [user("u", "Look."), assistant("a", calls=["1-1"]), result("1-1", "awful")]
    assert (await infer(model, said, None)).text == "hello"
    assert model.last == ["Look.", "", MESSAGE_NOTE]


async def test_a_request_that_was_too_long_can_be_rejected_and_still_be_answered() -> None:
    class Narrow(Prudish):
        async def complete(self, request: ModelRequest) -> ModelResponse:
            if any(len(message.text) > 1_000 for message in request.messages):
                self.requests.append(request)
                raise ProviderError(ProviderErrorKind.CONTEXT_OVERFLOW, "too long")
            if any("awful" in message.text for message in request.messages):
                self.requests.append(request)
                raise ProviderError(self.kind, "rejected")
            return await super().complete(request)

    model = Narrow(ProviderErrorKind.INVALID_REQUEST)
    said = [user("u0", "awful " * 1_000), user("u1", "Are you there?")]
    assert (await infer(model, said, None)).text == "hello"
    assert model.last == [MESSAGE_NOTE, "Are you there?"]


async def test_a_request_that_is_rejected_whatever_it_says_fails_with_the_first_rejection() -> None:
    model = Prudish(ProviderErrorKind.INVALID_REQUEST, takes_nothing=True)
    with pytest.raises(ApplicationError) as failed:
        await infer(model, [user("u0", "Hello."), user("u1", "Hello?")], None)
    assert failed.value.message == "inference failed: rejection 1"
    assert len(model.requests) == 2
