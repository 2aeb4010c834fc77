"""What every provider behind HTTP has in common: its key, its URL, and one streamed POST that is always closed.

Nothing is retried here: Temporal does that, by the kind of the error. The inference activity above builds the request
and assembles the parts of the answer; `failures` translates what goes wrong in httpx below.
"""

import asyncio
import contextlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

import httpx
from pydantic import JsonValue

from wakeful.contract.errors import ConfigurationError, ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest
from wakeful.contract.limits import ERROR_BYTES, MESSAGE_BYTES, RESPONSE_BYTES
from wakeful.contract.streaming import StreamPart
from wakeful_activities.bounded_http import IDENTITY, TooLong, check_encoding, up_to
from wakeful_activities.providers.shared.failures import (
    Endpoint,
    connection_error,
    interrupted,
    malformed_event,
    request_id,
    status_error,
    too_long,
)
from wakeful_activities.providers.shared.reading import Reader
from wakeful_activities.providers.shared.sse import EventTooLong, SseDecoder, SseError
from wakeful_activities.providers.shared.writing import Json

CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.2


class HttpProvider(ABC):
    """Models behind an HTTP API.

    Args:
        api_key: the key; or `env:NAME` or `file:/path`, which is read at each call, so that you can rotate the key;
            or None for a server that needs none.
        base_url: the URL of the API; None for its vendor's.
        timeout: the seconds that one complete answer may take.
        client: an HTTP client to share; you close it yourself.

    Raises:
        ConfigurationError: the key or the base URL is not usable.
    """

    home: ClassVar[str]
    """The URL at which the API's vendor serves it."""
    path: ClassVar[str]
    models_path: ClassVar[str] = "/models"
    """Where the API lists its models."""
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]
    vendor: ClassVar[str]
    """The vendor, by its name in OpenTelemetry's GenAI conventions."""

    def __init__(
        self,
        *,
        api_key: str | None,
        base_url: str | None = None,
        timeout: float = 600,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        self._key = ApiKey(api_key)
        base_url = self.home if base_url is None else base_url
        problems = [*self._key.problems(), *_url_problems(base_url, self.home)]
        if problems:
            raise ConfigurationError(problems)
        url = httpx.URL(base_url)
        before = url.path.rstrip("/")
        if self.path.startswith("/v1/"):  # users write the base URL with the version or without it
            before = before.removesuffix("/v1")
        self._url = url.copy_with(path=before + self.path)
        self._timeout = timeout
        self._shared_client = client
        self._own_client: httpx.AsyncClient | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """The provider with the key of `key_variable` and the base URL of `url_variable`, which defaults to `home`."""
        base_url = environ.get(cls.url_variable, "").strip() or None
        return cls(api_key=environ.get(cls.key_variable), base_url=base_url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(host={self._host!r})"

    @property
    def gen_ai_provider(self) -> str | None:
        """What telemetry calls it, if its vendor serves the API: at another address, only you know who does."""
        return self.vendor if self._is_home else None

    @property
    def _is_home(self) -> bool:
        return self._url.host == httpx.URL(self.home).host

    @property
    def _host(self) -> str:
        return self._url.netloc.decode()

    @property
    def _client(self) -> httpx.AsyncClient:
        """Made at the first call: to load the CA certificates takes long, and most providers of a worker are unused."""
        if self._shared_client is not None:
            return self._shared_client
        if self._own_client is None:
            # No limit: activity slots limit the calls already, and a call must not time out in a second queue.
            self._own_client = httpx.AsyncClient(limits=httpx.Limits(max_connections=None))
        return self._own_client

    async def aclose(self) -> None:
        """Close the connections, unless the client is shared."""
        if self._own_client is not None:
            await self._own_client.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` part by part, ending with `Stop`. Leaving the iterator closes the connection.

        Raises:
            ProviderError: the call failed; its kind decides whether Temporal tries again.
        """
        payload = self._body(request)
        endpoint = Endpoint(request.model, self._host, self._key.value())
        self._check_setup(endpoint)
        deadline = asyncio.get_running_loop().time() + self._timeout
        response = await self._open(payload, endpoint, deadline)
        try:
            reader = self._reader(endpoint, request_id(response.headers))
            body = _IncomingBody(response, endpoint, timeout=self._timeout, deadline=deadline)
            try:
                while not (body.is_over or reader.is_done):
                    for part in body.parts(reader, await body.read()):
                        yield part
            except ProviderError:
                if reader.stop is None:
                    raise
            for part in reader.finish():
                yield part
            await body.drain()
        finally:
            await response.aclose()

    async def unknown_models(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Those of the models that the API does not know; None if it cannot say. The call costs nothing.

        Raises:
            ProviderError: the API cannot be reached, or rejects the key.
        """
        endpoint = Endpoint(names[0] if names else "", self._host, self._key.value())
        self._check_setup(endpoint)
        answer = await self._get(self.models_path, endpoint)
        if answer is None:
            return None
        entries = answer.get("data") if isinstance(answer, dict) else None
        listed = {entry.get("id") for entry in entries if isinstance(entry, dict)} if isinstance(entries, list) else ()
        # Also one by one: an API may know aliases that it does not list.
        rest = [name for name in names if name not in listed]
        return tuple([name for name in rest if await self._get(f"{self.models_path}/{name}", endpoint) is None])

    def _check_setup(self, endpoint: Endpoint) -> None:
        """Raise `ProviderError` if a call cannot succeed: the vendor's own host requires a key."""
        # A shared client may have an `auth` of its own.
        if endpoint.api_key is None and self._is_home and self._shared_client is None:
            problem = f"{endpoint} needs an API key; set {self.key_variable} in the worker's environment"
            raise ProviderError(ProviderErrorKind.UNAUTHORIZED, problem)

    def _url_for(self, model: str) -> httpx.URL:  # noqa: ARG002  # of some APIs, it is a part of the path
        return self._url

    async def _get(self, path: str, endpoint: Endpoint) -> JsonValue:
        """What the API returns for a path; None if it has no such path."""
        url = self._url.copy_with(path=self._url.path.removesuffix(self.path) + path)
        headers = {**self._headers(endpoint.api_key), **IDENTITY}
        request = self._client.build_request("GET", url, headers=headers, timeout=CONNECT_SECONDS)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                response = await self._client.send(request, stream=True)
                content = await _content(response, endpoint, MESSAGE_BYTES)
        except (httpx.RequestError, TimeoutError) as error:
            raise connection_error(endpoint, error, timeout=CONNECT_SECONDS) from error
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        if not response.is_success:
            raise status_error(endpoint, response, content.decode(errors="replace"))
        try:
            answer: JsonValue = json.loads(content)
        except ValueError:  # a proxy's page
            return None
        return answer

    async def _open(self, payload: Json, endpoint: Endpoint, deadline: float) -> httpx.Response:
        request = self._client.build_request(
            "POST",
            self._url_for(endpoint.model),
            json=payload,
            headers={**self._headers(endpoint.api_key), **IDENTITY},
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS)),
        )
        try:
            # httpx limits each read; only the deadline ends an answer that trickles.
            async with asyncio.timeout_at(deadline):
                response = await self._client.send(request, stream=True, follow_redirects=False)
                content = b"" if response.is_success else await _content(response, endpoint, ERROR_BYTES)
        except (httpx.RequestError, TimeoutError) as error:
            raise connection_error(endpoint, error, timeout=self._timeout) from error
        if not response.is_success:
            raise status_error(endpoint, response, content.decode(errors="replace"))
        return response

    @abstractmethod
    def _body(self, request: ModelRequest) -> Json:
        """The JSON body of a request, as the API defines it."""

    @abstractmethod
    def _headers(self, key: str | None) -> dict[str, str]: ...

    @abstractmethod
    def _reader(self, endpoint: Endpoint, request_id: str | None) -> Reader: ...


async def _content(response: httpx.Response, endpoint: Endpoint, limit: int) -> bytes:
    """The first bytes of a response, which is closed."""
    try:
        check_encoding(response.headers)
        return await up_to(limit, response.aiter_bytes())
    except TooLong as error:
        raise too_long(endpoint, str(error)) from None
    finally:
        await response.aclose()


class _IncomingBody:
    """The body of a response while it arrives: events, or JSON from a server that does not stream."""

    def __init__(self, response: httpx.Response, endpoint: Endpoint, *, timeout: float, deadline: float) -> None:
        try:
            check_encoding(response.headers)
        except TooLong as error:
            raise too_long(endpoint, str(error)) from None
        self._chunks = response.aiter_bytes()
        self._size = 0
        self._is_streamed = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        self._endpoint = endpoint
        self._timeout = timeout
        self._deadline = deadline
        self._decoder = SseDecoder()
        self._body = bytearray()
        self.is_over = False

    async def read(self) -> bytes:
        """The next bytes; none at the end."""
        try:
            # Around one read only: a timeout that spans a `yield` would cancel the consumer of the parts.
            async with asyncio.timeout_at(self._deadline):
                chunk = await anext(self._chunks, b"")
        except (httpx.RequestError, TimeoutError) as error:
            raise interrupted(self._endpoint, error, timeout=self._timeout) from error
        self.is_over = not chunk
        self._size += len(chunk)
        if self._size > (limit := RESPONSE_BYTES if self._is_streamed else MESSAGE_BYTES):
            raise too_long(self._endpoint, f"it has more than {limit:,} bytes")
        return chunk

    def parts(self, reader: Reader, chunk: bytes) -> Iterator[StreamPart]:
        """The parts that `chunk` adds to the answer."""
        if self._is_streamed:
            try:
                for event in self._decoder.end() if self.is_over else self._decoder.feed(chunk):
                    if not reader.is_done:
                        yield from reader.read_event(event)
            except EventTooLong as error:
                raise too_long(self._endpoint, str(error)) from None
            except SseError as error:
                raise malformed_event(self._endpoint, str(error), chunk.decode(errors="replace")) from error
        else:
            self._body += chunk
            if self.is_over:
                yield from reader.read_body(self._body.decode(errors="replace"))

    async def drain(self) -> None:
        """Read past the last event: a connection can be reused only if its response was read to the end."""
        with contextlib.suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self.is_over:
                    await self.read()


class ApiKey:
    """A key, or a reference to one. It is never logged or quoted."""

    def __init__(self, written: str | None) -> None:
        # A key from a file may end in a newline; h11 would reject the header with a message that quotes it.
        self._written = (written or "").strip() or None

    def problems(self) -> list[str]:
        scheme, name = self._reference()
        if scheme and not name:
            return [f"the API key is the reference '{scheme}:', which names nothing; write it like {_EXAMPLES[scheme]}"]
        if scheme or self._written is None or _fits_header(self._written):
            return []
        return ["the API key holds characters that no HTTP header can carry; set it again without them"]

    def value(self) -> str | None:
        """The current key.

        Raises:
            ProviderError: the reference leads to no key.
        """
        scheme, name = self._reference()
        if not scheme:
            return self._written
        where = f"environment variable {name!r}" if scheme == "env" else f"file {name!r}"
        try:
            found = os.environ.get(name, "") if scheme == "env" else Path(name).read_bytes().decode(errors="replace")
        except OSError as error:
            raise _no_key(where, f"cannot be read ({type(error).__name__})") from error
        if not found.strip():
            raise _no_key(where, "is empty or not set")
        if not _fits_header(found.strip()):
            raise _no_key(where, "holds characters that no HTTP header can carry")
        return found.strip()

    def _reference(self) -> tuple[str, str]:
        scheme, colon, name = (self._written or "").partition(":")
        return (scheme, name.strip()) if colon and scheme in _EXAMPLES else ("", "")


_EXAMPLES = {"env": "'env:OPENAI_API_KEY'", "file": "'file:/run/secrets/key'"}


def _fits_header(key: str) -> bool:
    return key.isascii() and key.isprintable()


def _no_key(where: str, problem: str) -> ProviderError:
    advice = "set it where this worker runs"
    return ProviderError(ProviderErrorKind.UNAUTHORIZED, f"the API key is in {where}, which {problem}; {advice}")


def _url_problems(base_url: str, home: str) -> list[str]:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        return [f"the base URL cannot be parsed; write it like {home!r}"]
    if url.userinfo:
        return ["the base URL holds a user or password, which httpx logs; pass a client with `auth` instead"]
    if url.scheme not in ("http", "https") or not url.host:
        return [f"the base URL {base_url!r} has no http:// or https://; write it like {home!r}"]
    return []
