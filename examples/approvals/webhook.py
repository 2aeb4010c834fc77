"""Approvals in a chat: a small service that posts what waits for a decision, and takes the clicks back.

    python examples/approvals/webhook.py --demo     everything at once, on a server of its own; plays the chat itself
    python examples/approvals/webhook.py            the service, for a cluster of yours: see README.md beside this file

It keeps nothing. What was posted comes back with the click, under a signature; the run itself knows what was decided.
"""

import argparse
import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import httpx
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from wakeful import Registry
from wakeful.cli import demo_app
from wakeful.cli.process import run_and_leave
from wakeful.client.approvals import PendingDecision
from wakeful.client.client import Client
from wakeful.connection import connect, embedded_server
from wakeful.contract.errors import CallerError, ConfigurationError, DecisionRefused, NoAnswer, WakefulError
from wakeful.worker import running_worker

TIMESTAMP, SIGNATURE = "X-Approvals-Timestamp", "X-Approvals-Signature"
WINDOW_SECONDS = 300
"""A request that was signed longer ago is a replay."""
MAX_BODY = 64_000
LOOK_EVERY_SECONDS = 1.0

_logger = logging.getLogger("approvals")


class Question(BaseModel):
    """What the chat is sent, and shows with a button for each answer."""

    thread_id: str
    call_id: str
    decision_id: str
    arguments_digest: str | None
    agent: str
    tool: str
    arguments: JsonValue
    message: str
    expires_at: int | None


class Click(BaseModel):
    """What the chat sends back: the names from the question, and who clicked on what."""

    model_config = ConfigDict(extra="ignore")

    thread_id: str
    call_id: str
    decision_id: str
    arguments_digest: str | None = None
    action: Literal["approve", "deny"]
    user: str
    reason: str | None = None


def sign(secret: bytes, at: int, body: bytes) -> str:
    """The time is signed together with the body, so that neither can be changed."""
    return hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def signed(secret: bytes, body: bytes, *, at: int | None = None) -> dict[str, str]:
    at = int(time.time()) if at is None else at
    return {TIMESTAMP: str(at), SIGNATURE: sign(secret, at, body), "Content-Type": "application/json"}


def is_genuine(secret: bytes, headers: Mapping[str, str], body: bytes) -> bool:
    try:
        at = int(headers.get(TIMESTAMP.lower()) or "")
    except ValueError:
        return False
    if abs(time.time() - at) > WINDOW_SECONDS:
        return False
    return hmac.compare_digest(sign(secret, at, body), headers.get(SIGNATURE.lower()) or "")


def question(pending: PendingDecision) -> Question:
    # One id for one question: whoever clicks twice, or on the other button after all, repeats the first decision.
    asked = f"{pending.thread_id}/{pending.run_id}/{pending.call_id}/{pending.since}"
    return Question(
        thread_id=pending.thread_id,
        call_id=pending.call_id,
        decision_id=hashlib.sha256(asked.encode()).hexdigest()[:32],
        arguments_digest=pending.arguments_digest,
        agent=pending.agent_id,
        tool=pending.tool_name,
        arguments=pending.arguments,
        message=pending.message or pending.action,
        expires_at=pending.expires_at,
    )


@dataclass(frozen=True)
class Approvals:
    """The service: `post_questions` runs until it is cancelled, `clicked` answers one request."""

    client: Client
    chat_url: str
    secret: bytes
    actors: Mapping[str, str]
    """Who may decide: the chat's users, and the names that go on the record."""

    async def post_questions(self) -> None:
        posted: set[str] = set()
        async with httpx.AsyncClient(timeout=10) as http:
            while True:
                try:
                    posted = await self._post_new(http, posted)
                except WakefulError:
                    _logger.warning("what waits cannot be listed; trying again", exc_info=True)
                await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _post_new(self, http: httpx.AsyncClient, posted: set[str]) -> set[str]:
        """Post what the chat has not been told yet; gives the ids of what waits and was posted."""
        waiting = [question(pending) async for pending in self.client.inbox() if pending.unknown is None]
        for asked in waiting:
            if asked.decision_id not in posted:
                body = asked.model_dump_json().encode()
                try:
                    (await http.post(self.chat_url, content=body, headers=signed(self.secret, body))).raise_for_status()
                    posted.add(asked.decision_id)
                except httpx.HTTPError:
                    _logger.warning("the chat did not take a question; trying again", exc_info=True)
        return posted & {asked.decision_id for asked in waiting}

    async def clicked(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """The HTTP status and a text for whoever clicked."""
        if not is_genuine(self.secret, headers, body):
            return 401, "the signature does not fit, or is too old"
        try:
            click = Click.model_validate_json(body)
        except ValidationError as error:
            return 400, f"this is no click: {error.error_count()} fields are wrong"
        actor = self.actors.get(click.user)
        if actor is None:
            return 403, f"{click.user} may not decide"
        try:
            return 200, await self._decide(click, actor)
        except DecisionRefused as error:
            return 409, error.reason
        except CallerError as error:
            return 409, str(error)

    async def _decide(self, click: Click, actor: str) -> str:
        async def send(*, confirm: bool) -> str | None:
            return await self.client.decide(
                click.thread_id,
                click.call_id,
                "resume" if click.action == "approve" else "cancel",
                reason=click.reason,
                arguments_digest=click.arguments_digest,
                decision_id=click.decision_id,
                actor=actor,
                confirm=confirm,
            )

        try:
            return await send(confirm=True) or "sent"
        except NoAnswer:
            await send(confirm=False)
            return "sent: it waits until a worker runs"


Answer = Callable[[Mapping[str, str], bytes], Coroutine[Any, Any, tuple[int, str]]]


@contextlib.asynccontextmanager
async def http_server(answer: Answer, *, port: int = 0) -> AsyncIterator[str]:
    """Answer every POST with what `answer` makes of it; gives the address."""
    loop = asyncio.get_running_loop()

    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length") or ""
            if not length.isdecimal() or int(length) > MAX_BODY:
                self.send_error(413)
                return
            body = self.rfile.read(int(length))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = asyncio.run_coroutine_threadsafe(answer(headers, body), loop).result(timeout=60)
            said = json.dumps({"said": text}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            """What is decided is in history; nothing is logged here."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    serving = loop.run_in_executor(None, server.serve_forever)
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        await serving
        server.server_close()


async def serve() -> None:
    """The service, as the environment says."""
    missing = [name for name in ("APPROVALS_SECRET", "APPROVALS_CHAT_URL", "APPROVALS_USERS") if name not in os.environ]
    if missing:
        raise ConfigurationError([f"{name} is not set; see README.md" for name in missing])
    approvals = Approvals(
        Client(await connect()),
        chat_url=os.environ["APPROVALS_CHAT_URL"],
        secret=os.environ["APPROVALS_SECRET"].encode(),
        actors=json.loads(os.environ["APPROVALS_USERS"]),
    )
    async with http_server(approvals.clicked, port=int(os.environ.get("APPROVALS_PORT", "8700"))) as address:
        print(f"clicks are taken at {address}", flush=True)
        await approvals.post_questions()


async def demo() -> None:
    """The whole story: a run suspends, the chat is told, and only the right click lets it go on."""
    secret = os.urandom(32)
    asked: asyncio.Queue[Question] = asyncio.Queue()

    async def chat(headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        if not is_genuine(secret, headers, body):
            return 401, "not from the approvals service"
        await asked.put(Question.model_validate_json(body))
        return 200, "shown"

    registry = Registry(agents=[demo_app.assistant], models={"default": demo_app.script})
    async with (
        embedded_server(ui=False) as temporal,
        running_worker(temporal.client, registry),
        http_server(chat) as chat_url,
    ):
        client = Client(temporal.client)
        approvals = Approvals(client, chat_url, secret, {"U1": "ann@example.com"})
        async with http_server(approvals.clicked) as clicks_url, asyncio.TaskGroup() as group:
            posting = group.create_task(approvals.post_questions())
            thread_id = await client.start("assistant", "Refund order 1042, please")
            async with asyncio.timeout(60):
                shown = await asked.get()
                print(f"chat: {shown.agent} asks: {shown.message}   {shown.tool} {json.dumps(shown.arguments)}")
                await _click_around(clicks_url, secret, shown)
                result = await client.result(thread_id)
            posting.cancel()
    print(f"run: {result.response}")


async def _click_around(url: str, secret: bytes, shown: Question) -> None:
    """Everything somebody could try, and then the click that counts, twice."""
    click = {**shown.model_dump(), "user": "U1", "action": "approve", "reason": "it arrived broken"}
    stale = int(time.time()) - WINDOW_SECONDS - 1
    async with httpx.AsyncClient(timeout=30) as http:

        async def send(what: str, key: bytes = secret, *, at: int | None = None, **other: str) -> int:
            body = json.dumps({**click, **other}).encode()
            said = await http.post(url, content=body, headers=signed(key, body, at=at))
            print(f"{what}: {said.status_code} {said.json()['said']}", flush=True)
            return said.status_code

        tried = [
            await send("forged click", b"guessed"),
            await send("click of an hour ago", at=stale),
            await send("click of a stranger", user="U2"),
        ]
        if shown.arguments_digest is not None:
            tried.append(await send("click on other arguments", arguments_digest="0" * 32))
        clicks = sorted(await asyncio.gather(send("click"), send("click again")))
    if tried != [401, 401, 403, 409] or clicks not in ([200, 200], [200, 409]):
        print(f"approvals: the service answered {tried} and {clicks}", file=sys.stderr)
        raise SystemExit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true", help="run everything here, and play the chat")
    asyncio.run(demo() if parser.parse_args().demo else serve())


if __name__ == "__main__":
    run_and_leave(main, name="approvals")
