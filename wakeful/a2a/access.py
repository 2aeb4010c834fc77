"""Who may use an A2A server: clients with its token; without one, programs on the same machine, but no web page."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH

from wakeful.http_serving import Refusal, has_token, is_loopback, refusal_of_page, refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

NO_TOKEN = Refusal(403, "this server has no token, and serves only its own machine: set WAKEFUL_A2A_TOKEN")
WRONG_TOKEN = Refusal(401, "the bearer token is missing or wrong")
NOT_JSON = Refusal(415, "send the request as application/json")

JSON_TYPES = (b"application/json", b"application/a2a+json")


class Access:
    """An ASGI application that lets only those requests through that may use another. Cards are public.

    Args:
        hosts: names, or `name:port`, by which clients reach a server without a token, beside loopback names.
    """

    def __init__(self, app: "ASGIApp", *, token: str | None, hosts: Collection[str]) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (self._app(scope, receive, send) if refusal is None else refuse(send, refusal, unread=receive))

    def _refusal(self, scope: "Scope") -> Refusal | None:
        if self._token is not None:
            return None if _is_for_card(scope) or has_token(scope["headers"], self._token) else WRONG_TOKEN
        if (refusal := refusal_of_page(scope["headers"], self._hosts)) is not None or _is_for_card(scope):
            return refusal
        if not is_loopback((scope.get("client") or ("",))[0]):
            return NO_TOKEN
        return None if _is_json(scope) else NOT_JSON


def _is_for_card(scope: "Scope") -> bool:
    path: str = scope["path"]
    return scope["method"] in ("GET", "HEAD") and path.endswith(AGENT_CARD_WELL_KNOWN_PATH)


def _is_json(scope: "Scope") -> bool:
    """Whether a request says that its body is JSON, or has none.

    Browsers let a page post a form or a text to any server without asking it first, but no JSON.
    """
    types = [value for name, value in scope["headers"] if name == b"content-type"]
    has_body = any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
        for name, value in scope["headers"]
    )
    return bool(types or not has_body) and all(
        value.partition(b";")[0].strip().lower() in JSON_TYPES for value in types
    )
