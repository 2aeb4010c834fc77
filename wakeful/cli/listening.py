"""Where `wakeful mcp serve --http` listens, who may call it, and by which names."""

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from wakeful import http_serving
from wakeful.contract.errors import ConfigurationError
from wakeful.http_serving import in_url, is_loopback
from wakeful.mcp.transports import PATH, TOKEN_VARIABLE

LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class Bound:
    """A socket that listens, and the names by which clients reach it."""

    socket: socket.socket
    host: str
    allowed_hosts: tuple[str, ...]

    @property
    def url(self) -> str:
        return f"http://{in_url(self.host)}:{self.socket.getsockname()[1]}{PATH}"


def listen(written: str, allowed_hosts: Sequence[str], *, token: str | None) -> Bound:
    """Listen where `--http` says.

    Raises:
        ConfigurationError: it is not an address, others than this machine could reach it without a token or by no name
            that is known, or the port is taken.
    """
    host, port = parse_address(written)
    if not is_loopback(host) and token is None:
        raise ConfigurationError(
            [f"--http {written!r} listens beyond this machine: set {TOKEN_VARIABLE} to a token that clients must have"]
        )
    names = [*allowed_hosts] if _is_any(host) or is_loopback(host) else [in_url(host), *allowed_hosts]
    if not names and not is_loopback(host):
        raise ConfigurationError(
            [f"--http {written!r} listens on every interface: say with --allowed-host by which names clients reach it"]
        )
    return Bound(http_serving.listen(host, port), host, tuple(names))


def parse_address(written: str) -> tuple[str, int]:
    """The host and the port of `[HOST:]PORT`; an IPv6 address is in brackets."""
    host, _, port = written.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > 65535 or (":" in host and not host.startswith("[")):
        raise ConfigurationError([f"--http {written!r} is not an address: write a port, HOST:PORT or [IPV6]:PORT"])
    return host.strip("[]") or LOCAL, int(port)


def _is_any(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_unspecified
    return False
