"""Webhooks: which addresses a server posts to, and the request that posts a task.

A client chooses the address, so a server that posts anywhere would let clients reach what only the server can reach.
The address is checked when the config is set, and again when it is used: a name may have another address by then.
"""

import asyncio
import contextlib
import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from a2a.types import StreamResponse, Task
from google.protobuf.json_format import MessageToDict

from wakeful.contract.errors import CallerError
from wakeful.contract.push import PushConfig

TOKEN_HEADER = "X-A2A-Notification-Token"
ID_HEADER = "Idempotency-Key"
"""The header with the id of a notification, which is the same if the notification is sent again."""

POST_SECONDS = 10.0
"""How long a webhook may take for everything: from the look-up of its name to the end of its answer's headers."""

MAX_URL_LENGTH = 2000


class WebhookRefused(CallerError):
    """The server does not post to this address. The message says why, and does not have the address's path."""


@dataclass(frozen=True)
class Webhook:
    """The parts of a webhook's address."""

    scheme: str
    host: str
    port: int


def parse_webhook(url: str) -> Webhook:
    """The parts of an address.

    Raises:
        WebhookRefused: it is not one that a server can post to.
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        raise WebhookRefused("the webhook's url cannot be parsed") from None
    if scheme not in ("http", "https") or not host:
        raise WebhookRefused("the webhook's url must start with http:// or https://, and name a host")
    if parts.username is not None or parts.password is not None:
        raise WebhookRefused("the webhook's url has a user name or a password: use the config's authentication")
    if len(url) > MAX_URL_LENGTH or any(character.isspace() for character in url):
        raise WebhookRefused(f"the webhook's url has spaces, or more than {MAX_URL_LENGTH} characters")
    return Webhook(scheme, host, port or (443 if scheme == "https" else 80))


async def find_address(webhook: Webhook, *, private: bool) -> str:
    """The IP address of a webhook's host.

    Args:
        private: it may be an address that is not public: of this machine, or of its networks.

    Raises:
        WebhookRefused: it cannot be resolved, or one of its addresses is not public. The message does not say which: a
            client could otherwise find out which names the server's own networks have.
    """
    loop = asyncio.get_running_loop()
    addresses = list[str]()
    with contextlib.suppress(OSError, UnicodeError, TimeoutError):
        async with asyncio.timeout(POST_SECONDS):
            found = await loop.getaddrinfo(webhook.host, webhook.port, type=socket.SOCK_STREAM)
        addresses = [str(info[4][0]) for info in found]
    if addresses and (private or all(map(_is_public, addresses))):
        return addresses[0]
    raise WebhookRefused(
        f"the webhook's host {webhook.host!r} has no public address; if clients may have webhooks in the server's own "
        "networks, serve with --push-private, or app(…, push_private=True)"
    )


async def post_task(config: PushConfig, task: Task, *, id: str) -> None:
    """Post a task to a webhook.

    Raises:
        WebhookRefused: its host has no address any more, or one that is not public.
        TimeoutError: it took too long, however much it sent meanwhile.
        httpx.HTTPError: it cannot be reached, or does not accept the notification.
    """
    webhook = parse_webhook(config.url)
    address = await find_address(webhook, private=config.private)
    url = httpx.URL(config.url)
    # To the address that was checked, and not to another one that the name has a moment later.
    request = httpx.Request(
        "POST",
        url.copy_with(host=address),
        json=MessageToDict(StreamResponse(task=_shown(task))),
        headers={"Host": url.netloc.decode("ascii"), **_headers(config), ID_HEADER: id},
        extensions={
            "sni_hostname": url.raw_host.decode("ascii"),
            "timeout": httpx.Timeout(POST_SECONDS).as_dict(),
        },
    )
    # Not by a client: that would log the address, which may hold a secret, and follow proxies and redirects. The time
    # is limited as a whole, because httpx limits each read alone: a webhook could send a byte now and then.
    async with asyncio.timeout(POST_SECONDS), httpx.AsyncHTTPTransport() as transport:
        response = await transport.handle_async_request(request)
        await response.aclose()  # what it answers is not read
    if not response.is_success:
        raise httpx.HTTPStatusError(f"status {response.status_code}", request=request, response=response)


def _headers(config: PushConfig) -> dict[str, str]:
    headers = {} if config.token is None else {TOKEN_HEADER: config.token}
    if config.scheme and config.credentials:
        headers["Authorization"] = f"{config.scheme} {config.credentials}"
    return headers


def _shown(task: Task) -> Task:
    """Without the messages of the conversation, which can be large: a client gets the task for them."""
    shown = Task()
    shown.CopyFrom(task)
    shown.ClearField("history")
    return shown


_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Translated to the IPv4 address in the last 32 bits."""

_NOT_PUBLIC = [
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # Azure's own services, on every machine in it
        "192.88.99.0/24",  # relays of 6to4
        "2002::/16",  # 6to4: the IPv4 address in it may be any
        "2001::/32",  # Teredo: the same
        "64:ff9b:1::/48",  # NAT64 for addresses that are not public
        "fec0::/10",  # site-local
    )
]
"""What Python counts as global, and is the server's own network, or leads to it."""


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF) if ip in _NAT64 else ip.ipv4_mapped or ip
    is_special = ip.is_multicast or ip.is_reserved or ip.is_unspecified
    return ip.is_global and not is_special and not any(ip in network for network in _NOT_PUBLIC)
