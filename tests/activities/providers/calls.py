"""Call a provider in a test."""

import pytest

from tests.support.fake_provider.script import Reply
from tests.support.fake_provider.server import FakeProvider
from wakeful.authoring.provider import StreamingProvider
from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import ModelRequest
from wakeful.contract.messages import ContentBlock, Message, Role, TextBlock
from wakeful.contract.streaming import StreamPart


def text(words: str) -> TextBlock:
    return TextBlock(text=words)


def user(*blocks: ContentBlock) -> Message:
    return Message(id="m", role=Role.USER, content=blocks)


HELLO = ModelRequest(model="test-model", messages=(user(text("hello")),), prompt_cache=False)


async def parts(provider: StreamingProvider, request: ModelRequest = HELLO) -> list[StreamPart]:
    """The parts of the answer."""
    return [part async for part in provider.stream(request)]


async def failure(
    provider: StreamingProvider, fake: FakeProvider, reply: Reply, request: ModelRequest = HELLO
) -> ProviderError:
    """The error if the server replies like this."""
    fake.will(reply)
    with pytest.raises(ProviderError) as caught:
        await parts(provider, request)
    return caught.value
