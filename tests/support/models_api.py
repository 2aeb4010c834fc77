"""The part of a provider's API that lists models: `GET /v1/models`, for one key."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

KEY = "sk-right"
MODELS = ("gpt-5",)
ALIAS = "gpt-5-latest"
"""Known, and not listed."""


@contextlib.asynccontextmanager
async def models_api(*, lists: bool = True) -> AsyncIterator[str]:
    """Serve the API; yields its base URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = request.split(" ")[1]
        status, body = _answer(path, is_authorised=f"Bearer {KEY}" in request, lists=lists)
        written = json.dumps(body).encode()
        writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: {len(written)}\r\nConnection: close\r\n\r\n".encode())
        writer.write(written)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host="127.0.0.1", port=0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def _answer(path: str, *, is_authorised: bool, lists: bool) -> tuple[int, object]:
    if not is_authorised:
        return 401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    if not lists:
        return 404, {"error": {"message": "not found"}}
    if path == "/v1/models":
        return 200, {"data": [{"id": model} for model in MODELS]}
    known = path.removeprefix("/v1/models/") in (*MODELS, ALIAS)
    return (200, {"id": ALIAS}) if known else (404, {"error": {"message": "no such model"}})
