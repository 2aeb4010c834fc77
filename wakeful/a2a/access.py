"""Who may use an A2A server: clients with its token; without one, only those on the same machine."""

from typing import TYPE_CHECKING

from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.responses import JSONResponse

from wakeful.http_serving import has_token, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

NO_TOKEN = "this server has no token, and serves only its own machine: set WAKEFUL_A2A_TOKEN"


class Access:
    """An ASGI application that lets only those requests through that may use another. Cards are public."""

    def __init__(self, app: "ASGIApp", *, token: str | None) -> None:
        self._app = app
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http" or _is_for_card(scope):
            await self._app(scope, receive, send)
        elif self._token is None and not is_loopback((scope.get("client") or ("",))[0]):
            await _refusal(403, NO_TOKEN)(scope, receive, send)
        elif self._token is not None and not has_token(scope["headers"], self._token):
            await _refusal(401, "the bearer token is missing or wrong")(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _is_for_card(scope: "Scope") -> bool:
    path: str = scope["path"]
    return scope["method"] in ("GET", "HEAD") and path.endswith(AGENT_CARD_WELL_KNOWN_PATH)


def _refusal(code: int, message: str) -> JSONResponse:
    status = "UNAUTHENTICATED" if code == 401 else "PERMISSION_DENIED"
    headers = {"WWW-Authenticate": "Bearer"} if code == 401 else {}
    return JSONResponse({"error": {"code": code, "status": status, "message": message}}, code, headers)
