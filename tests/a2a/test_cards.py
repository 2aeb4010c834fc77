"""The cards of agents, and who may use a server."""

import httpx
import pytest
from a2a.types import Message, Part
from a2a.utils.errors import ContentTypeNotSupportedError
from starlette.applications import Starlette

from wakeful import Agent, ConfigurationError, Registry, ScriptedModel, say, tool
from wakeful.a2a.access import Access
from wakeful.a2a.cards import card, served_agents
from wakeful.a2a.parts import a2a_message, blocks_of
from wakeful.contract import messages
from wakeful.contract.messages import AudioBlock, DocumentBlock, ImageBlock, TextBlock, UrlSource, VideoBlock
from wakeful.http_serving import is_loopback, listen


@tool
def look(at: str) -> str:
    """Look at something."""
    return at


REGISTRY = Registry(
    agents=[Agent(id="clerk", description="Files things.", tools=[look]), Agent(id="buyer")],
    models={"default": ScriptedModel([say("hi")])},
)


def test_each_agent_has_interfaces_of_its_own_and_the_first_comes_first_and_last() -> None:
    made = card(served_agents(REGISTRY), url="http://x", has_token=False)
    tenants = [interface.tenant for interface in made.supported_interfaces]
    assert tenants == ["clerk", "clerk", "buyer", "buyer", "clerk", "clerk"]
    assert [(skill.id, skill.description) for skill in made.skills] == [
        ("clerk", "Files things."),
        ("buyer", "The agent 'buyer'."),
    ]
    assert (made.capabilities.streaming, made.capabilities.push_notifications) == (True, True)


def test_only_the_extended_card_has_the_tools_of_agents() -> None:
    (clerk,) = served_agents(REGISTRY, only=["clerk"])
    public = card([clerk], url="http://x", has_token=True)
    extended = card([clerk], url="http://x", has_token=True, extended=True)
    assert (public.name, [skill.id for skill in public.skills]) == ("clerk", ["clerk"])
    assert [skill.id for skill in extended.skills] == ["clerk", "clerk.look"]
    assert public.security_schemes["bearer"].http_auth_security_scheme.scheme == "bearer"


def test_agents_that_cannot_be_served_are_named() -> None:
    with pytest.raises(ConfigurationError, match="agent 'nobody' is unknown; known: clerk, buyer"):
        served_agents(REGISTRY, only=["nobody"])
    with pytest.raises(ConfigurationError, match="'partner/weather' cannot be served"):
        served_agents({"partner/weather": ""})
    with pytest.raises(ConfigurationError, match="no agent to serve"):
        served_agents({})


async def test_without_a_token_only_this_machine_is_served() -> None:
    guarded = Access(Starlette(), token=None, hosts=["x"])
    for host, expected in (("127.0.0.1", 404), ("::1", 404), ("192.0.2.7", 403)):
        transport = httpx.ASGITransport(guarded, client=(host, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            assert (await http.get("/tasks")).status_code == expected


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", "Basic right", "right", "Bearer rightt"])
async def test_a_wrong_token_is_refused_in_whatever_way_it_is_wrong(authorization: str) -> None:
    transport = httpx.ASGITransport(Access(Starlette(), token="right", hosts=[]))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        assert (await http.get("/tasks", headers={"Authorization": authorization})).status_code == 401
        assert (await http.get("/tasks", headers={"Authorization": "bearer right"})).status_code == 404


def test_the_machine_itself_is_known_by_its_names() -> None:
    assert [
        host for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "10.0.0.1", "example.com") if is_loopback(host)
    ] == [
        "localhost",
        "127.0.0.1",
        "::1",
    ]


def test_an_address_that_is_taken_is_a_clear_error() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(ConfigurationError, match="cannot listen on"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_parts_are_content_blocks_and_come_back_as_they_were() -> None:
    parts = [
        Part(text="hello", media_type="text/plain"),
        Part(raw=b"\x89PNG", media_type="image/png"),
        Part(raw=b"%PDF", media_type="application/pdf", filename="a.pdf"),
        Part(raw=b"RIFF", media_type="audio/wav"),
        Part(raw=b"MP4", media_type="video/mp4"),
    ]
    blocks = blocks_of(Message(parts=parts))
    assert [type(block) for block in blocks] == [TextBlock, ImageBlock, DocumentBlock, AudioBlock, VideoBlock]
    said = messages.Message(id="m", role=messages.Role.USER, content=blocks)
    assert list(a2a_message(said, task_id="", context_id="").parts) == parts


def test_texts_and_data_are_texts_and_a_link_is_a_link() -> None:
    content = [Part(raw="grüezi".encode(), media_type="text/plain"), Part(url="http://x/a.png", media_type="image/png")]
    assert blocks_of(Message(parts=content)) == (
        TextBlock(text="grüezi"),
        ImageBlock(source=UrlSource(url="http://x/a.png")),
    )


@pytest.mark.parametrize("part", [Part(raw=b"\xff", media_type="text/plain"), Part(raw=b"?", filename="a")])
def test_files_that_no_model_could_read_are_refused(part: Part) -> None:
    with pytest.raises(ContentTypeNotSupportedError, match="file"):
        blocks_of(Message(parts=[part]))
