"""Approvals in a chat: a small service that posts pending decisions to a chat, and receives the clicks.

    python examples/approvals/webhook.py --demo     the whole flow on its own server; it also plays the chat
    python examples/approvals/webhook.py            the service, for your cluster: see README.md in this directory

It stores nothing. The click returns what was posted, with a signature; the run itself records what was decided.
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

from wakeful import (
    Agent,
    CallerError,
    Client,
    ConfigurationError,
    DecisionRefused,
    NoAnswer,
    PendingDecision,
    Registry,
    ScriptedModel,
    ToolContext,
    WakefulError,
    call,
    connect,
    say,
    tool,
)
from wakeful.testing import runtime

TIMESTAMP, SIGNATURE = "X-Approvals-Timestamp", "X-Approvals-Signature"
WINDOW_SECONDS = 300
"""A request with an older signature is a replay."""
MAX_BODY = 64_000
POLL_SECONDS = 1.0

_logger = logging.getLogger("approvals")


class Question(BaseModel):
    """What the chat receives, and shows with a button for each answer."""

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
    """What the chat sends back: ids from the question, and who clicked which button."""

    model_config = ConfigDict(extra="ignore")

    thread_id: str
    call_id: str
    decision_id: str
    arguments_digest: str | None = None
    action: Literal["approve", "deny"]
    user: str
    reason: str | None = None


def sign(secret: bytes, at: int, body: bytes) -> str:
    """Signs the time together with the body, so that neither can be changed."""
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
    # One decision id per question: a second click, on either button, repeats the first decision and changes nothing.
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
    """The service: `post_questions` runs until it is cancelled, `clicked` handles one request."""

    client: Client
    chat_url: str
    secret: bytes
    actors: Mapping[str, str]
    """Who may decide: the chat's users, and the names to record for them."""

    async def post_questions(self) -> None:
        posted: set[str] = set()
        async with httpx.AsyncClient(timeout=10) as http:
            while True:
                try:
                    posted = await self._post_new(http, posted)
                except WakefulError:
                    _logger.warning("cannot list pending decisions; retrying", exc_info=True)
                await asyncio.sleep(POLL_SECONDS)

    async def _post_new(self, http: httpx.AsyncClient, posted: set[str]) -> set[str]:
        """Post the new questions; returns the ids of all pending questions that were posted."""
        waiting = [question(await self._whole(each)) async for each in self.client.inbox() if each.unknown is None]
        for asked in waiting:
            if asked.decision_id not in posted:
                body = asked.model_dump_json().encode()
                try:
                    (await http.post(self.chat_url, content=body, headers=signed(self.secret, body))).raise_for_status()
                    posted.add(asked.decision_id)
                except httpx.HTTPError:
                    _logger.warning("cannot post a question to the chat; retrying", exc_info=True)
        return posted & {asked.decision_id for asked in waiting}

    async def _whole(self, pending: PendingDecision) -> PendingDecision:
        """The decision with all its arguments: a person has to see what they decide about."""
        if pending.cut:
            async for each in self.client.inbox(thread_id=pending.thread_id):
                if each.ticket == pending.ticket:
                    return each
        return pending

    async def clicked(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """The HTTP status, and a text for the user who clicked."""
        if not is_genuine(self.secret, headers, body):
            return 401, "the signature is wrong or too old"
        try:
            click = Click.model_validate_json(body)
        except ValidationError as error:
            return 400, f"not a click: {error.error_count()} fields are wrong"
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
        try:
            status = await self.client.decide(
                click.thread_id,
                click.call_id,
                "resume" if click.action == "approve" else "cancel",
                reason=click.reason,
                arguments_digest=click.arguments_digest,
                decision_id=click.decision_id,
                actor=actor,
                confirm=True,
            )
        except NoAnswer:  # the decision is in the thread's history nevertheless
            return "sent: it takes effect when a worker runs"
        return status or "sent"


PostHandler = Callable[[Mapping[str, str], bytes], Coroutine[Any, Any, tuple[int, str]]]


@contextlib.asynccontextmanager
async def http_server(handle: PostHandler, *, port: int = 0) -> AsyncIterator[str]:
    """Serve POST requests with `handle`; yields the address."""
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
            status, text = asyncio.run_coroutine_threadsafe(handle(headers, body), loop).result(timeout=60)
            response = json.dumps({"message": text}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: workflow history records the decisions."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    serving = loop.run_in_executor(None, server.serve_forever)
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        await serving
        server.server_close()


async def serve() -> None:
    """Run the service, configured by the environment."""
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
        print(f"listening for clicks at {address}", flush=True)
        await approvals.post_questions()


@tool(idempotent=True)
def refund(order_id: str, amount: float, ctx: ToolContext) -> dict[str, object]:
    """Pay a customer's money back. A person has to approve it first."""
    if ctx.resume_input is None:
        ctx.suspend(f"Refund {amount:.2f} EUR for order {order_id}?")
    return {"refunded": amount, "order_id": order_id}


assistant = Agent(id="assistant", tools=[refund])
script = ScriptedModel([call("refund", order_id="1042", amount=249.0), say("Done: {result}")])


async def demo() -> None:
    """The whole flow: a run suspends, the chat gets the question, and only the right click resumes it."""
    secret = os.urandom(32)
    asked: asyncio.Queue[Question] = asyncio.Queue()

    async def chat(headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        if not is_genuine(secret, headers, body):
            return 401, "not from the approvals service"
        await asked.put(Question.model_validate_json(body))
        return 200, "shown"

    registry = Registry(agents=[assistant], models={"default": script})
    async with runtime(registry) as client, http_server(chat) as chat_url:
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
    """Try everything that must not work, and then the right click, twice."""
    click = {**shown.model_dump(), "user": "U1", "action": "approve", "reason": "it arrived broken"}
    stale = int(time.time()) - WINDOW_SECONDS - 1
    async with httpx.AsyncClient(timeout=30) as http:

        async def send(what: str, key: bytes = secret, *, at: int | None = None, **other: str) -> int:
            body = json.dumps({**click, **other}).encode()
            response = await http.post(url, content=body, headers=signed(key, body, at=at))
            print(f"{what}: {response.status_code} {response.json()['message']}", flush=True)
            return response.status_code

        tried = [
            await send("forged click", b"guessed"),
            await send("click with an old signature", at=stale),
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
    parser.add_argument("--demo", action="store_true", help="run the whole flow here, and play the chat")
    try:
        asyncio.run(demo() if parser.parse_args().demo else serve())
    except WakefulError as error:
        raise SystemExit(f"approvals: {error}") from None


if __name__ == "__main__":
    main()
