"""What every provider behind HTTP has in common: its key, its address, and one streamed POST that is always closed.

Nothing is retried here: Temporal does that, by the kind of the error. Above it the inference activity builds requests
and gathers what comes; below it are httpx and, for whatever goes wrong, `failures`.
"""

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Self

import httpx

from wakeful.contract.errors import ConfigurationError, ProviderError, ProviderErrorKind
from wakeful.contract.inference import ModelRequest
from wakeful.contract.streaming import StreamPart
from wakeful_activities.providers.shared.failures import Callee, broken_off, malformed, refused, request_id, unanswered
from wakeful_activities.providers.shared.reading import Reader
from wakeful_activities.providers.shared.sse import SseDecoder, SseError
from wakeful_activities.providers.shared.writing import Json

CONNECT_SECONDS = 10.0
_DRAIN_SECONDS = 0.2


class HttpProvider(ABC):
    """Models behind an HTTP API.

    Args:
        api_key: the key; or `env:NAME` or `file:/path`, which is looked up at each call, so that a new key is picked
            up; or None for a server that wants none.
        base_url: where the API is; None for its maker's.
        timeout: the seconds one whole answer may take.
        client: a client to share; whoever made it closes it.

    Raises:
        ConfigurationError: the key or the base URL cannot be used as they are.
    """

    home: ClassVar[str]
    """Where the API's maker serves it."""
    path: ClassVar[str]
    key_variable: ClassVar[str]
    url_variable: ClassVar[str]

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
        if self.path.startswith("/v1/"):  # some write the version into the base URL, some do not
            before = before.removesuffix("/v1")
        self._url = url.copy_with(path=before + self.path)
        self._timeout = timeout
        self._shares_client = client is not None
        # No limit: the worker's activity slots are one already, and a call must not time out in a second queue.
        self._client = client or httpx.AsyncClient(limits=httpx.Limits(max_connections=None))

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """The provider that two variables describe, `key_variable` and `url_variable`; without the latter, `home`."""
        base_url = environ.get(cls.url_variable, "").strip() or None
        return cls(api_key=environ.get(cls.key_variable), base_url=base_url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(host={self._host!r})"

    @property
    def _is_home(self) -> bool:
        return self._url.host == httpx.URL(self.home).host

    @property
    def _host(self) -> str:
        return self._url.netloc.decode()

    async def aclose(self) -> None:
        """Close the connections, unless the client is shared."""
        if not self._shares_client:
            await self._client.aclose()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` part by part, ending with `Stop`. Leaving the iterator closes the connection.

        Raises:
            ProviderError: the call failed; its kind decides whether Temporal tries again.
        """
        body = self._body(request)
        callee = Callee(request.model, self._host, self._key.value())
        if callee.api_key is None and self._is_home and not self._shares_client:  # a client of theirs may have `auth`
            problem = f"{callee} needs an API key; set {self.key_variable} in the worker's environment"
            raise ProviderError(ProviderErrorKind.UNAUTHORIZED, problem)
        deadline = asyncio.get_running_loop().time() + self._timeout
        response = await self._open(body, callee, deadline)
        try:
            reader = self._reader(callee, request_id(response.headers))
            arriving = _Arriving(response, callee, timeout=self._timeout, deadline=deadline)
            try:
                while not (arriving.is_over or reader.is_done):
                    for part in arriving.read_by(reader, await arriving.more()):
                        yield part
            except ProviderError:
                if reader.stop is None:
                    raise
            for part in reader.end():
                yield part
            await arriving.drain()
        finally:
            await response.aclose()

    async def _open(self, body: Json, callee: Callee, deadline: float) -> httpx.Response:
        asking = self._client.build_request(
            "POST",
            self._url,
            json=body,
            headers=self._headers(callee.api_key),
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS)),
        )
        try:
            # httpx bounds each read; only the outer bound ends an answer that trickles.
            async with asyncio.timeout_at(deadline):
                response = await self._client.send(asking, stream=True, follow_redirects=False)
                if not response.is_success:
                    await response.aread()
        except (httpx.RequestError, TimeoutError) as error:
            raise unanswered(callee, error, timeout=self._timeout) from error
        if not response.is_success:
            raise refused(callee, response)
        return response

    @abstractmethod
    def _body(self, request: ModelRequest) -> Json:
        """The request as the API writes it."""

    @abstractmethod
    def _headers(self, key: str | None) -> dict[str, str]: ...

    @abstractmethod
    def _reader(self, callee: Callee, request_id: str | None) -> Reader: ...


class _Arriving:
    """A response whose body is on its way: events, or, from a server that does not stream, all of it at once."""

    def __init__(self, response: httpx.Response, callee: Callee, *, timeout: float, deadline: float) -> None:
        self._chunks = response.aiter_bytes()
        self._is_streamed = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        self._callee = callee
        self._timeout = timeout
        self._deadline = deadline
        self._decoder = SseDecoder()
        self._body = bytearray()
        self.is_over = False

    async def more(self) -> bytes:
        """The next bytes; none at the end."""
        try:
            # Around one read only: a bound that is held across a `yield` would cancel whoever reads the parts.
            async with asyncio.timeout_at(self._deadline):
                chunk = await anext(self._chunks, b"")
        except (httpx.RequestError, TimeoutError) as error:
            raise broken_off(self._callee, error, timeout=self._timeout) from error
        self.is_over = not chunk
        return chunk

    def read_by(self, reader: Reader, chunk: bytes) -> Iterator[StreamPart]:
        """What `chunk` adds to the answer."""
        if self._is_streamed:
            try:
                for event in self._decoder.end() if self.is_over else self._decoder.feed(chunk):
                    if not reader.is_done:
                        yield from reader.event(event)
            except SseError as error:
                raise malformed(self._callee, str(error), chunk.decode(errors="replace")) from error
        else:
            self._body += chunk
            if self.is_over:
                yield from reader.whole(self._body.decode(errors="replace"))

    async def drain(self) -> None:
        """Read past the last event: a connection that is read to its end can be used again."""
        with contextlib.suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self.is_over:
                    await self.more()


class ApiKey:
    """A key, or where it is to be found. It is never shown."""

    def __init__(self, written: str | None) -> None:
        # A key read from a file ends in a newline; h11 would refuse the header in a message that quotes it.
        self._written = (written or "").strip() or None

    def problems(self) -> list[str]:
        scheme, name = self._reference()
        if scheme and not name:
            return [f"the API key is the reference '{scheme}:', which names nothing; write it like {_EXAMPLES[scheme]}"]
        if scheme or self._written is None or _fits_header(self._written):
            return []
        return ["the API key holds characters that no HTTP header can carry; set it again without them"]

    def value(self) -> str | None:
        """The key as it is now.

        Raises:
            ProviderError: it is to be found somewhere, and is not there.
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
