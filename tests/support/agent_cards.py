"""A service that has nothing but an A2A agent card: `a2a-sdk`'s own route, over HTTP on loopback."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import uvicorn
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.support.waiting import BOUND_SECONDS


def agent_card(name: str, *interfaces: AgentInterface, description: str = "", **skills: str) -> AgentCard:
    """The card of an agent; `skills` are descriptions by id."""
    return AgentCard(
        name=name,
        description=description or f"{name}, at your service.",
        version="1",
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id=id, name=id, description=text, tags=["test"])
            for id, text in (skills or {"all": "All"}).items()
        ],
    )


@dataclass
class CardServer:
    """What the service answers, which tests change, and what it was asked."""

    url: str
    card: AgentCard = field(default_factory=lambda: agent_card("Weather"))
    answer: Response | None = None
    """Instead of the card."""
    asked: list[Request] = field(default_factory=list)

    def interface(
        self, path: str = "/a2a", *, binding: str = "HTTP+JSON", version: str = "1.0", tenant: str = ""
    ) -> AgentInterface:
        return AgentInterface(
            url=f"{self.url}{path}", protocol_binding=binding, protocol_version=version, tenant=tenant
        )

    def offer(self, name: str, *, tenant: str = "", description: str = "") -> None:
        """Have a card with one current interface."""
        self.card = agent_card(name, self.interface(tenant=tenant), description=description)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(Request(scope))
        routes = Starlette(routes=create_agent_card_routes(self.card))
        await (self.answer or routes)(scope, receive, send)


@contextlib.asynccontextmanager
async def card_server(name: str = "Weather") -> AsyncIterator[CardServer]:
    """Serve the card of an agent with this name."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cards = CardServer(f"http://127.0.0.1:{listener.getsockname()[1]}")
        cards.offer(name)
        server = uvicorn.Server(uvicorn.Config(cards, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                while not server.started:
                    await asyncio.sleep(0.01)
            yield cards
        finally:
            server.should_exit = True
            await serving


def unused_url() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
