"""Requests that a server must refuse, as bytes on the wire: a seeded generator, for A2A and for MCP.

Each is one that a client could send which knows the ids of everything, but may reach nothing of it.
"""

import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote

from pydantic import JsonValue

from wakeful.http_serving import BODY_BYTES, BODY_VALUES

Protocol = Literal["a2a", "mcp"]

HOSTS = (
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "localhost@evil.example",
    "[::1",
    "",
    "\xe7",
)
ORIGINS = (
    "http://evil.example",
    "null",
    "https://127.0.0.1.evil.example",
    "file://",
    "http://",
    "chrome-extension://x",
)
TOKENS = ("", "Bearer", "Bearer ", "Bearer wrong", "Basic c2VjcmV0", "Bearer s3cre", "Bearer s3crett", "Bearer \x7f")


@dataclass(frozen=True)
class Target:
    """A server, and what a client needs that it lets in."""

    protocol: Protocol
    port: int
    token: str | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Victims:
    """What no request may reach, by the ids that clients name it with."""

    threads: Sequence[str]
    tasks: Sequence[str]
    """A2A tasks of these threads."""
    contexts: Sequence[str]
    suspended: Mapping[str, str]
    """Own threads or tasks whose call waits for an approval, and the tickets."""
    listed: Sequence[str] = ()
    """A2A contexts whose tasks may be listed."""


@dataclass(frozen=True)
class Hostile:
    """A request."""

    kind: str
    target: Target
    wire: bytes
    held: bool = False
    """It is not complete, or its answer is not read: the server has to disconnect it."""
    refused: bool = True
    """The server must refuse it. Else it may answer, of what the client has itself."""


class Generator:
    """Makes hostile requests for servers: one that trusts its machine, and one that wants a token."""

    def __init__(self, trusting: Target, guarded: Target, victims: Victims, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._trusting = trusting
        self._guarded = guarded
        self._victims = victims
        kinds: dict[str, Callable[[], Hostile]] = {
            "host": self._host,
            "origin": self._origin,
            "token": self._token,
            "agent": self._agent,
            "thread": self._thread,
            "decision": self._decision,
            "body": self._body,
            "values": self._values,
            "path": self._path,
            "slow": self._slow,
        }
        if trusting.protocol == "a2a":
            kinds["context"] = self._context
        self._kinds = kinds

    def requests(self, number: int) -> list[Hostile]:
        """So many, of every kind."""
        makers = list(self._kinds.values())
        return [makers[each % len(makers)]() for each in range(number)]

    def _host(self) -> Hostile:
        host = self._random.choice(HOSTS)
        return self._made("host", self._trusting, self._valid(self._trusting), {"Host": host})

    def _origin(self) -> Hostile:
        origin = self._random.choice(ORIGINS)
        headers = {"Origin": origin}
        if self._trusting.protocol == "a2a" and self._random.random() < 0.5:
            headers = {"Content-Type": self._random.choice(("text/plain", "application/x-www-form-urlencoded"))}
        return self._made("origin", self._trusting, self._valid(self._trusting), headers)

    def _token(self) -> Hostile:
        return self._made(
            "token", self._guarded, self._valid(self._guarded), {"Authorization": self._random.choice(TOKENS)}
        )

    def _agent(self) -> Hostile:
        target = self._any()
        agent = self._random.choice(("judge", "chief", "tester", "../payer", "payer\x00", "x" * 5000, "нет"))
        if target.protocol == "mcp":
            return self._made("agent", target, _call(agent, {"message": "hello"}))
        return self._made("agent", target, _rpc("SendMessage", {**_message("hello"), "tenant": agent}))

    def _thread(self) -> Hostile:
        """Threads and tasks of the application, of other tenants and of other users."""
        target = self._any()
        if target.protocol == "mcp":
            thread = self._mutated(self._random.choice(self._victims.threads))
            named = self._random.choice(
                (
                    ("continue", {"thread_id": thread}),
                    ("continue", {"thread_id": thread, "decision": "approve", "ticket": f"{thread}/1-1"}),
                    ("cancel", {"thread_id": thread}),
                    ("payer", {"message": "what was said?", "thread_id": thread}),
                )
            )
            return self._made("thread", target, _call(*named))
        task = self._mutated(self._random.choice(self._victims.tasks))
        if self._random.random() < 0.5:
            method, params = self._random.choice(
                (
                    ("GetTask", {"id": task}),
                    ("CancelTask", {"id": task}),
                    ("SubscribeToTask", {"id": task}),
                    ("SendMessage", _message("approve", taskId=task)),
                    ("ListTaskPushNotificationConfigs", {"taskId": task}),
                    ("CreateTaskPushNotificationConfig", {"taskId": task, "url": "http://127.0.0.1/hook"}),
                )
            )
            return self._made("thread", target, _rpc(method, params))
        path = f"/tasks/{quote(task, safe='')}"
        made = self._random.choice(
            (
                _http("GET", path),
                _http("POST", f"{path}:cancel", b"{}"),
                _http("GET", f"{path}:subscribe"),
                _http("GET", f"{path}/pushNotificationConfigs"),
            )
        )
        return self._made("thread", target, made)

    def _context(self) -> Hostile:
        """Contexts that have the ids of threads of others. What a client sends to one opens a thread of its own."""
        target = self._any()
        context = self._random.choice(self._victims.contexts)
        if self._random.random() < 0.2:
            listed = _http("GET", f"/tasks?contextId={quote(self._random.choice(self._victims.listed), safe='')}")
            return self._made("context", target, listed, refused=False)
        if self._random.random() < 0.1:
            sent = _message("what was said?", contextId=context) | {"configuration": {"returnImmediately": True}}
            return self._made("context", target, _rpc("SendMessage", sent), refused=False)
        if self._random.random() < 0.3:
            wrong = self._random.choice(("x" * 300, "a\nb", 'a"b', "\x00"))
            return self._made("context", target, _rpc("SendMessage", _message("hello", contextId=wrong)))
        return self._made(
            "context",
            target,
            _http("GET", f"/tasks?contextId={quote(context, safe='')}&historyLength=99"),
            refused=False,
        )

    def _decision(self) -> Hostile:
        """The approval of a call that the client has asked for itself."""
        named, ticket = self._random.choice(list(self._victims.suspended.items()))
        if self._trusting.protocol == "mcp":
            arguments = {"thread_id": named, "ticket": ticket, "decision": self._random.choice(("approve", "deny"))}
            return self._made("decision", self._trusting, _call("continue", arguments))
        part = self._random.choice(({"text": "approve"}, {"text": "no"}, {"data": {"approved": True}}, {"data": True}))
        message = _message("", taskId=named, parts=[part], metadata={"call_id": ticket})
        return self._made("decision", self._trusting, _rpc("SendMessage", message))

    def _body(self) -> Hostile:
        target = self._any()
        valid = self._valid(target)
        large = b"x" * (BODY_BYTES + self._random.choice((1, 1_000_000)))
        deep = (b"[" * 9_000, b"[" * 100_000)
        bodies = (b"", b"{", b"[]", b"null", b"5", b"\xff\xfe", *deep, b'{"jsonrpc":"2.0","id":NaN}', large)
        body, headers = self._random.choice(bodies), dict[str, str]()
        match self._random.randrange(4):
            case 0:
                headers = {"Transfer-Encoding": "chunked"}
                body = b"%x\r\n%s\r\n" % (len(large), large)
            case 1:
                body = valid.body
                headers = {"Content-Length": self._random.choice(("9" * 30, "-1", "1e3", "0x10", str(BODY_BYTES + 1)))}
            case _:
                pass
        return self._made("body", target, _Request(valid.method, valid.path, body), headers)

    def _values(self) -> Hostile:
        """A body of many values, each of which the server would have to look at."""
        target = self._any()
        number = self._random.choice((BODY_VALUES - 100, BODY_VALUES + 1, 300_000))
        kinds: tuple[list[JsonValue], ...] = ([1] * number, [[]] * (number // 2), [{"a": 1}] * (number // 2))
        many = self._random.choice(kinds)
        if target.protocol == "mcp":
            return self._made("values", target, _call("cancel", {"thread_id": many}))
        part = [{"data": many}]
        sent = self._random.choice(
            (
                ("CancelTask", {"id": self._random.choice(self._victims.tasks), "metadata": {"many": many}}),
                ("SendMessage", _message("", taskId=self._random.choice(self._victims.tasks), parts=part)),
            )
        )
        return self._made("values", target, _rpc(*sent))

    def _path(self) -> Hostile:
        path = self._random.choice(
            (
                "/tasks/%00.x",
                "/" + "a" * 8000,
                "/..%2f..%2fetc/passwd",
                "//evil.example/",
                "/tasks/x/../../mcp%00",
                "/%ff",
            )
        )
        return self._made("path", self._any(), _http(self._random.choice(("GET", "PUT", "DELETE", "TRACE")), path))

    def _slow(self) -> Hostile:
        """A client that does not end its headers or its body, or does not read."""
        target = self._any()
        own = next(iter(self._victims.suspended))
        harmless = _rpc("tools/list", {}) if target.protocol == "mcp" else _rpc("GetTask", {"id": own})
        whole = self._wire(target, harmless, {"Connection": "keep-alive"})
        if self._random.random() < 0.3:
            return Hostile("slow", target, whole * 200, held=True)
        head, _, body = whole.partition(b"\r\n\r\n")
        part = self._random.choice((b"", head[:20], head, head + b"\r\n\r\n" + body[:5]))
        return Hostile("slow", target, part, held=True)

    def _any(self) -> Target:
        return self._random.choice((self._trusting, self._guarded))

    def _mutated(self, id: str) -> str:
        """The id itself, most of the time."""
        match self._random.randrange(8):
            case 0:
                return id[:-1]
            case 1:
                return f"{id}/1-1"
            case 2:
                return id.upper()
            case 3:
                return id + "\x00"
            case _:
                return id

    def _valid(self, target: Target) -> "_Request":
        """A request that the server answers to a client that it lets in."""
        if target.protocol == "mcp":
            return _call("cancel", {"thread_id": self._random.choice(list(self._victims.suspended))})
        return _rpc("CancelTask", {"id": self._random.choice(list(self._victims.suspended))})

    def _made(
        self,
        kind: str,
        target: Target,
        request: "_Request",
        headers: Mapping[str, str] | None = None,
        *,
        refused: bool = True,
    ) -> Hostile:
        return Hostile(kind, target, self._wire(target, request, headers or {}), refused=refused)

    def _wire(self, target: Target, request: "_Request", headers: Mapping[str, str]) -> bytes:
        path = "/mcp" if target.protocol == "mcp" and request.path == "/" else request.path
        known = {
            "Host": f"127.0.0.1:{target.port}",
            "Connection": "close",
            "Accept": "application/json, text/event-stream",
            **({"Content-Type": "application/json"} if request.body else {}),
            **({"Authorization": f"Bearer {target.token}"} if target.token else {}),
            **target.headers,
        }
        if "Transfer-Encoding" not in headers:
            known["Content-Length"] = str(len(request.body))
        lines = [f"{name}: {value}" for name, value in {**known, **headers}.items()]
        head = "\r\n".join([f"{request.method} {path} HTTP/1.1", *lines, "", ""])
        return head.encode("latin-1") + request.body


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes = b""


_IDS = itertools.count(100)
"""Of two requests of one MCP session that have the same id at the same time, one gets no answer."""


def _http(method: str, path: str, body: bytes = b"") -> _Request:
    return _Request(method, path, body)


def _rpc(method: str, params: Mapping[str, object]) -> _Request:
    written = json.dumps({"jsonrpc": "2.0", "id": next(_IDS), "method": method, "params": params})
    return _Request("POST", "/", written.encode())


def _call(tool: str, arguments: Mapping[str, JsonValue]) -> _Request:
    return _rpc("tools/call", {"name": tool, "arguments": arguments})


def _message(text: str, **more: object) -> dict[str, object]:
    message = {"messageId": "hostile", "role": "ROLE_USER", "parts": [{"text": text}], **more}
    return {"message": message}
