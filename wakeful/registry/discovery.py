"""Discover the agents of other services by their A2A agent cards: fetched here, and put in force by the registry.

A card is at a well-known place of the service's origin. It describes one agent and how to reach it: its interfaces,
each with a protocol, an address and perhaps a tenant. Needs `wakeful[a2a]`, which is imported with the first card.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from wakeful.authoring.a2a_source import A2aSource
from wakeful.authoring.remote_agent import RemoteAgent
from wakeful.authoring.secret_values import secret_headers
from wakeful.contract.errors import ConfigurationError, InvalidValue
from wakeful.contract.limits import cut
from wakeful.registry.content import DiscoveredSource

if TYPE_CHECKING:
    from a2a.types.a2a_pb2 import AgentCard, AgentInterface

DISCOVERY_SECONDS = 10.0
"""How long a service may take to send its card."""
MAX_CARD_BYTES = 256 * 1024

BINDINGS = ("HTTP+JSON", "JSONRPC")
"""The protocols that workers speak, in the order of preference."""
CURRENT_VERSION = re.compile(r"1\.0(\.\d+)?")

MAX_ID_LENGTH = 100


@dataclass(frozen=True)
class Discovery:
    """What was found, and which sources failed."""

    found: tuple[DiscoveredSource, ...]
    failures: Mapping[str, str]
    """Why, by the name of the source."""


async def discover(sources: Sequence[A2aSource]) -> Discovery:
    """Read the cards of all sources at the same time.

    Raises:
        ConfigurationError: the extra `a2a` is not installed.
    """
    if not sources:
        return Discovery((), {})
    _import_sdk(sources[0])
    # No redirects: the token would be sent to another place.
    async with httpx.AsyncClient(timeout=DISCOVERY_SECONDS, follow_redirects=False) as client:
        outcomes = await asyncio.gather(*(_outcome(client, source) for source in sources))
    found = tuple(outcome for outcome in outcomes if isinstance(outcome, DiscoveredSource))
    pairs = zip(sources, outcomes, strict=True)
    return Discovery(found, {source.name: outcome for source, outcome in pairs if isinstance(outcome, str)})


def card_url(url: str) -> str:
    """Where the agent card of a service is."""
    from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH

    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{AGENT_CARD_WELL_KNOWN_PATH}"


def discovered_agents(source: A2aSource, card: "AgentCard") -> tuple[RemoteAgent, ...]:
    """The agent of a card; if its interfaces name several tenants, one for each.

    Raises:
        CardProblem: no agent can be made of it.
    """
    usable = sorted((each for each in card.supported_interfaces if each.protocol_binding in BINDINGS), key=_rank)
    if not usable:
        offered = [f"{each.protocol_binding} {each.protocol_version}".strip() for each in card.supported_interfaces]
        raise CardProblem(
            f"its agent card has no {' or '.join(BINDINGS)} interface, but: {', '.join(offered) or 'none'}"
        )
    best = {each.tenant: each for each in reversed(usable) if each.tenant or each is usable[0]}
    others = sorted(tenant for tenant in best if tenant != usable[0].tenant)
    return tuple(_agent(source, card, best[tenant]) for tenant in (usable[0].tenant, *others))


class CardProblem(Exception):
    """An agent card cannot be read or used; the message says why."""


def slug(name: str) -> str:
    """An id that is made of a name: `Remote Coder v2` is `remote-coder-v2`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "agent"


def _import_sdk(source: A2aSource) -> None:
    try:
        import a2a.client.card_resolver  # noqa: F401  # an app without sources does not have it
    except ImportError as error:
        remedy = "install it with: pip install 'wakeful[a2a]'"
        raise ConfigurationError([f"source {source.name!r} needs the package a2a-sdk: {remedy} ({error})"]) from error


async def _outcome(client: httpx.AsyncClient, source: A2aSource) -> DiscoveredSource | str:
    """The agents of a source, or why there are none."""
    headers: dict[str, str] = {}
    url = card_url(source.url)
    try:
        headers = secret_headers(source.token, source.headers)
        async with asyncio.timeout(DISCOVERY_SECONDS):
            body = await _read(client, url, headers)
        return DiscoveredSource(source, discovered_agents(source, _parse(body)))
    except ConfigurationError as error:
        problem = str(error)
    except (CardProblem, httpx.ConnectError, httpx.InvalidURL) as error:
        problem = f"{error} ({url})"
    except (TimeoutError, httpx.TimeoutException):
        problem = f"no agent card within {DISCOVERY_SECONDS:g} s ({url})"
    except httpx.HTTPError as error:  # its text may quote the request
        problem = f"its agent card cannot be read: {type(error).__name__} ({url})"
    # The service may have repeated what it was sent.
    for value in headers.values():
        problem = problem.replace(value.removeprefix("Bearer "), "…")
    return cut(problem)


async def _read(client: httpx.AsyncClient, url: str, headers: Mapping[str, str]) -> bytes:
    body = bytearray()
    async with client.stream("GET", url, headers={"Accept": "application/json", **headers}) as response:
        if response.status_code != httpx.codes.OK:
            hints = {401: ": check its token", 403: ": check its token", 404: ": is this an A2A service?"}
            hint = ": redirects are not followed" if response.is_redirect else hints.get(response.status_code, "")
            raise CardProblem(f"HTTP {response.status_code} instead of an agent card{hint}")
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_CARD_BYTES:
                raise CardProblem(f"its agent card exceeds {MAX_CARD_BYTES:,} bytes")
    return bytes(body)


def _parse(body: bytes) -> "AgentCard":
    from a2a.client.card_resolver import parse_agent_card
    from google.protobuf.json_format import ParseError

    try:
        return parse_agent_card(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise CardProblem(f"its agent card is not JSON: {type(error).__name__}") from None
    except ParseError as error:
        raise CardProblem(f"its agent card is invalid: {error}") from None


def _rank(interface: "AgentInterface") -> tuple[bool, int]:
    is_old = CURRENT_VERSION.fullmatch(interface.protocol_version.strip()) is None
    return is_old, BINDINGS.index(interface.protocol_binding)


def _agent(source: A2aSource, card: "AgentCard", interface: "AgentInterface") -> RemoteAgent:
    id = interface.tenant or slug(card.name)
    if problem := next(_problems(source, id, interface.url), None):
        raise CardProblem(problem)
    skills = {skill.id: skill.description for skill in card.skills}
    try:
        return RemoteAgent(
            id=f"{source.name}/{id}",
            url=interface.url,
            description=skills.get(interface.tenant) or card.description,
            target=interface.tenant or None,
            token=source.token,
            headers=source.headers,
            timeout=source.timeout,
            poll_interval=source.poll_interval,
            idempotent=source.idempotent,
        )
    except InvalidValue as error:
        raise CardProblem(f"its agent card has a wrong interface: {error.fields[0]}") from None


def _problems(source: A2aSource, id: str, url: str) -> Iterator[str]:
    if not id.isprintable() or len(id) > MAX_ID_LENGTH:
        yield f"its agent card names a tenant that cannot be an id: {cut(id)!r}"
    if (source.token or source.headers) and _origin(url) != _origin(source.url):
        yield (
            f"its agent card names an interface at another origin, {url!r}, where its token and headers are not sent: "
            "change the card, or the url of the source"
        )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return url, None, None
