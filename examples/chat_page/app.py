"""A chat page on `client.ask` and `client.watch`: every tab of a thread shows all of it, live. README.md has more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from examples.hello import registry
from wakeful import Client
from wakeful.testing import runtime


def chat(client: Client, agent_id: str) -> Starlette:
    async def page(_: Request) -> Response:
        return FileResponse(Path(__file__).with_name("page.html"))

    async def ask(request: Request) -> Response:
        thread_id, text = request.path_params["thread_id"], (await request.body()).decode()
        answer = await client.ask(thread_id, text, agent_id=agent_id, live=True, on_decision="wait")
        return PlainTextResponse(answer.text)

    async def events(request: Request) -> Response:
        async def stream() -> AsyncIterator[str]:
            async for record in client.watch(request.path_params["thread_id"], live=True, wait=True):
                yield f"data: {record.event.model_dump_json()}\n\n"

        return StreamingResponse(stream(), media_type="text/event-stream")

    routes = [Route("/{thread_id}", page), Route("/{thread_id}", ask, methods=["POST"])]
    return Starlette(routes=[*routes, Route("/{thread_id}/events", events)])


async def main() -> None:
    async with runtime(registry) as client:  # a Temporal server, a worker and a client
        print("http://localhost:8000/espresso")
        await uvicorn.Server(uvicorn.Config(chat(client, "buyer"), timeout_graceful_shutdown=1)).serve()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
