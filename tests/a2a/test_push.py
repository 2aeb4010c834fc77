"""Push notifications: the official client sets configs, and a real webhook on loopback receives the states (B-714)."""

import asyncio
import contextlib
import dataclasses
import ipaddress
import json
import logging
from collections.abc import AsyncIterator

import pytest
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus

from tests.a2a.conftest import Caller, calling, own, serving
from tests.conftest import worker_settings
from tests.support.app import registry
from tests.support.encrypted import Encryption
from tests.support.waiting import BOUND_SECONDS
from wakeful.a2a import push_configs, webhooks
from wakeful.a2a.push_configs import PushConfigs
from wakeful.a2a.tasks import TaskRef
from wakeful.a2a.webhooks import WebhookRefused, find_address, parse_webhook, post_task
from wakeful.client.client import Client
from wakeful.client.deletion.delete import plan_delete
from wakeful.client.wake import describe
from wakeful.contract import ids
from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.push import PushConfig
from wakeful.http_serving import listen, serve_app
from wakeful.undecodable import with_converter
from wakeful.worker import running_worker
from wakeful_activities.a2a import push
from wakeful_workflows import a2a_push

SUBMITTED, WORKING, COMPLETED = "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"
INPUT_REQUIRED, CANCELED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"
CANARY = "canary-7f3a2c"


@dataclasses.dataclass
class Webhook:
    """A receiver of notifications; it rejects the first `failures` of them."""

    url: str = ""
    failures: int = 0
    bodies: list[dict[str, dict[str, object]]] = dataclasses.field(default_factory=list)
    headers: list[dict[str, str]] = dataclasses.field(default_factory=list)
    arrived: asyncio.Condition = dataclasses.field(default_factory=asyncio.Condition)

    async def receive(self, request: Request) -> Response:
        body = json.loads(await request.body())
        async with self.arrived:
            if self.failures:
                self.failures -= 1
                return Response(status_code=503)
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
            self.arrived.notify_all()
        return Response(status_code=204)

    @property
    def states(self) -> list[object]:
        return [body["task"]["status"]["state"] for body in self.bodies]  # type: ignore[index] # it is JSON

    async def until(self, state: str) -> list[object]:
        """Wait for the notification of a state; the states until then."""
        async with asyncio.timeout(BOUND_SECONDS), self.arrived:
            await self.arrived.wait_for(lambda: state in self.states)
            return self.states

    def config(self, id: str = "", token: str = "") -> TaskPushNotificationConfig:
        return TaskPushNotificationConfig(id=id, url=self.url, token=token)


@contextlib.asynccontextmanager
async def receiving(hook: Webhook, port: int = 0) -> AsyncIterator[int]:
    listening, stop = listen("127.0.0.1", port), asyncio.Event()
    port = listening.getsockname()[1]
    hook.url = f"http://127.0.0.1:{port}/hook?k=1"
    app = Starlette(routes=[Route("/hook", hook.receive, methods=["POST"])])
    running = asyncio.create_task(serve_app(app, listening, until=stop))
    try:
        yield port
    finally:
        stop.set()
        await running


@pytest.fixture
async def hook() -> AsyncIterator[Webhook]:
    hook = Webhook()
    async with receiving(hook):
        yield hook


async def task_with(caller: Caller, text: str, config: TaskPushNotificationConfig) -> str:
    """Begin a task whose message has a config; its id."""
    request = caller.request(text, at_once=True)
    request.configuration.task_push_notification_config.CopyFrom(config)
    return (await caller.task(request)).id


async def until_ended(client: Client, thread_id: str) -> None:
    """Wait until the thread has no push notifications any more."""
    handle = client.temporal.get_workflow_handle(ids.push_id(own(thread_id)))
    async with asyncio.timeout(BOUND_SECONDS):
        await handle.result()
    assert (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED


async def until_asleep(client: Client, thread_id: str) -> None:
    """Wait until nothing follows the thread, and there is only a timer."""
    handle = client.temporal.get_workflow_handle(ids.push_id(own(thread_id)))
    async with asyncio.timeout(BOUND_SECONDS):
        while (await handle.fetch_history()).events[-1].event_type != EventType.EVENT_TYPE_TIMER_STARTED:
            await asyncio.sleep(0.05)


async def test_every_state_is_posted_in_order_with_its_answer_and_an_id_of_its_own(
    url: str, client: Client, hook: Webhook, thread_id: str
) -> None:
    async with calling(url, thread_id) as caller:
        task_id = await task_with(caller, "add", hook.config())
    await hook.until(COMPLETED)
    await until_ended(client, thread_id)
    assert hook.states == [SUBMITTED, WORKING, COMPLETED]
    last = hook.bodies[-1]["task"]
    assert (last["id"], last["contextId"]) == (task_id, thread_id)
    assert "the sum is 5" in json.dumps(last["artifacts"])
    assert len({headers["idempotency-key"] for headers in hook.headers}) == 3
    assert "x-a2a-notification-token" not in hook.headers[0]


async def test_configs_are_created_read_listed_and_deleted(
    url: str, client: Client, hook: Webhook, thread_id: str
) -> None:
    async with calling(url, thread_id, binding=TransportProtocol.HTTP_JSON) as caller:
        task_id = await task_with(caller, "approve", hook.config("first"))
        await hook.until(INPUT_REQUIRED)
        other = Webhook()
        async with receiving(other):
            made = await caller.official.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task_id, id="second", url=other.url)
            )
            assert await other.until(INPUT_REQUIRED) == [SUBMITTED, WORKING, INPUT_REQUIRED]
            wanted = ListTaskPushNotificationConfigsRequest(task_id=task_id)
            listed = await caller.official.list_task_push_notification_configs(wanted)
            assert [(each.id, each.url) for each in listed.configs] == [("first", hook.url), ("second", other.url)]
            second = GetTaskPushNotificationConfigRequest(task_id=task_id, id="second")
            assert await caller.official.get_task_push_notification_config(second) == made
            await caller.official.delete_task_push_notification_config(
                DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="second")
            )
            with pytest.raises(TaskNotFoundError, match="has no push config 'second'"):
                await caller.official.get_task_push_notification_config(second)
            await caller.official.cancel_task(CancelTaskRequest(id=task_id))
            assert await hook.until(CANCELED) == [SUBMITTED, WORKING, INPUT_REQUIRED, WORKING, CANCELED]
            await until_ended(client, thread_id)
            assert CANCELED not in other.states
        assert not (await caller.official.list_task_push_notification_configs(wanted)).configs


async def test_a_config_of_a_task_that_has_ended_gets_all_its_states(
    url: str, client: Client, hook: Webhook, thread_id: str
) -> None:
    async with calling(url, thread_id) as caller:
        task_id = (await caller.task(caller.request("add"))).id
        await caller.official.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task_id, url=hook.url)
        )
        assert await hook.until(COMPLETED) == [SUBMITTED, WORKING, COMPLETED]
        await until_ended(client, thread_id)
        wanted = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        assert not (await caller.official.list_task_push_notification_configs(wanted)).configs


async def test_a_task_that_waits_is_followed_by_nothing_and_continues_with_the_decision_of_a_person(
    url: str, client: Client, hook: Webhook, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "FOLLOW_SECONDS", 1.0)
    async with calling(url, thread_id) as caller:
        await task_with(caller, "approve", hook.config())
        await hook.until(INPUT_REQUIRED)
    await until_asleep(client, thread_id)
    await client.decide(own(thread_id), "1-1", "resume", result="by a person")
    assert await hook.until(COMPLETED) == [SUBMITTED, WORKING, INPUT_REQUIRED, WORKING, COMPLETED]
    assert "May I launch?" in json.dumps(hook.bodies[2])


async def test_a_webhook_that_is_down_gets_everything_once_when_it_is_back(
    url: str, client: Client, thread_id: str
) -> None:
    hook = Webhook()
    async with receiving(hook) as port:
        pass
    async with calling(url, thread_id) as caller:
        await task_with(caller, "add", hook.config())
    await until_attempt(client, thread_id, 2)
    async with receiving(hook, port):
        assert await hook.until(COMPLETED) == [SUBMITTED, WORKING, COMPLETED]
        await until_ended(client, thread_id)


async def until_attempt(client: Client, thread_id: str, attempt: int) -> None:
    """Wait until so many attempts have been made to post a notification, or will be."""
    handle = client.temporal.get_workflow_handle(ids.push_id(own(thread_id)))
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            pending = (await handle.describe()).raw_description.pending_activities
            if pending and pending[0].attempt >= attempt:
                return
            await asyncio.sleep(0.05)


async def test_notifications_survive_a_restart_of_the_server_and_of_the_worker(
    temporal: TemporalClient, hook: Webhook, thread_id: str
) -> None:
    settings = worker_settings(task_queue=thread_id)
    client = Client(temporal, task_queue=thread_id)
    async with running_worker(temporal, registry, settings), serving(client) as url, calling(url, thread_id) as caller:
        task_id = await task_with(caller, "approve", hook.config())
        await hook.until(INPUT_REQUIRED)
    await client.decide(own(thread_id), "1-1", "resume", result="go")
    async with running_worker(temporal, registry, settings), serving(client) as url, calling(url, thread_id) as caller:
        assert await hook.until(COMPLETED) == [SUBMITTED, WORKING, INPUT_REQUIRED, WORKING, COMPLETED]
        assert (await caller.get(task_id)).status.state == 3
        await until_ended(client, thread_id)


async def test_secrets_are_taken_only_with_a_codec_and_are_nowhere_in_clear_text(
    temporal: TemporalClient, url: str, hook: Webhook, thread_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hook.failures = 1
    secret = hook.config("secret", token=f"{CANARY}-token")
    secret.authentication.scheme, secret.authentication.credentials = "Bearer", f"{CANARY}-credentials"
    async with calling(url, thread_id) as caller:
        with pytest.raises(InvalidParamsError, match="payload codec"):
            await task_with(caller, "hello", secret)
    converter = dataclasses.replace(temporal.data_converter, payload_codec=Encryption())
    encrypted = with_converter(temporal, converter)
    client = Client(encrypted, task_queue=thread_id)
    settings = worker_settings(task_queue=thread_id)
    async with running_worker(encrypted, registry, settings), serving(client) as url, calling(url, thread_id) as caller:
        task_id = await task_with(caller, "approve", secret)
        await hook.until(INPUT_REQUIRED)
        wanted = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        (shown,) = (await caller.official.list_task_push_notification_configs(wanted)).configs
        assert (shown.token, shown.authentication.scheme, shown.authentication.credentials) == ("", "Bearer", "")
        await caller.official.cancel_task(CancelTaskRequest(id=task_id))
        await hook.until(CANCELED)
        await until_ended(client, thread_id)
    assert {headers["x-a2a-notification-token"] for headers in hook.headers} == {f"{CANARY}-token"}
    assert {headers["authorization"] for headers in hook.headers} == {f"Bearer {CANARY}-credentials"}
    for id in (own(thread_id), ids.push_id(own(thread_id))):
        handle = temporal.get_workflow_handle(id)
        described = (await handle.describe()).raw_description.SerializeToString()
        written = (await handle.fetch_history()).to_json().encode() + described
        assert CANARY.encode() not in written
        assert b"k=1" not in written
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://127.0.0.1:9/hook", "no public address"),
        ("http://localhost:9/hook", "no public address"),
        ("http://[::ffff:10.0.0.1]/hook", "no public address"),
        ("http://169.254.169.254/latest", "no public address"),
        ("http://100.64.0.1/", "no public address"),
        ("ftp://example.com/", "http:// or https://"),
        ("https://ann:secret@example.com/", "a user name or a password"),
        ("http://example.invalid/", "no public address"),
        ("http://[::1", "cannot be parsed"),
        ("http://1.1.1.1/a b", "spaces"),
    ],
)
async def test_a_server_does_not_post_to_every_address(client: Client, address: str, problem: str) -> None:
    with pytest.raises((InvalidParamsError, WebhookRefused), match=problem):
        await PushConfigs(client, private=False, decisions=ClientDecisions.ALL).check(
            TaskPushNotificationConfig(url=address)
        )


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",
        "100.64.0.1",
        "198.18.0.1",
        "192.88.99.1",
        "168.63.129.16",
        "169.254.169.254",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
        "2001:0:7f00:1::",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
    ],
)
async def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    webhook = webhooks.Webhook("http", address, 80)
    assert ipaddress.ip_address(await find_address(webhook, private=True)) == ipaddress.ip_address(address)
    with pytest.raises(WebhookRefused, match="has no public address"):
        await find_address(webhook, private=False)


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "64:ff9b::101:101"])
async def test_a_public_address_is_posted_to(address: str) -> None:
    assert await find_address(webhooks.Webhook("http", address, 80), private=False) == address


async def test_a_refusal_does_not_tell_whether_a_name_exists_in_the_network_of_the_server() -> None:
    told = set()
    for host in ("localhost", "no-such-name.invalid", "127.0.0.1"):
        with pytest.raises(WebhookRefused) as refused:
            await find_address(parse_webhook(f"http://{host}/hook"), private=False)
        told.add(str(refused.value).replace(repr(host), "…"))
    assert len(told) == 1


async def test_a_task_and_a_context_have_a_limited_number_of_configs(
    url: str, client: Client, hook: Webhook, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_configs, "MAX_PER_TASK", 2)
    monkeypatch.setattr(push_configs, "MAX_PER_CONTEXT", 3)
    async with calling(url, thread_id) as caller:

        async def add(task_id: str, id: str) -> None:
            config = TaskPushNotificationConfig(task_id=task_id, id=id, url=hook.url)
            await caller.official.create_task_push_notification_config(config)

        first = await task_with(caller, "approve", hook.config("c0"))
        await hook.until(INPUT_REQUIRED)
        await add(first, "c1")
        await add(first, "c1")  # it replaces itself
        with pytest.raises(InvalidParamsError, match="a task may have 2 push configs"):
            await add(first, "c2")
        second = await task_with(caller, "later", hook.config("d0"))
        with pytest.raises(InvalidParamsError, match="the tasks of a context 3"):
            await add(second, "d1")
        refused = caller.request("later still", at_once=True)
        refused.configuration.task_push_notification_config.CopyFrom(hook.config())
        with pytest.raises(InvalidParamsError, match="the tasks of a context 3"):
            await caller.task(refused)
        assert len((await caller.official.list_tasks(ListTasksRequest(context_id=thread_id))).tasks) == 2
        for task_id in (second, first):
            await caller.official.cancel_task(CancelTaskRequest(id=task_id))
        await until_ended(client, thread_id)


async def test_of_configs_that_are_set_at_once_those_beyond_the_limit_are_dropped(
    url: str, client: Client, hook: Webhook, thread_id: str
) -> None:
    async with calling(url, thread_id) as caller:
        task_id = (await caller.task(caller.request("approve"))).id
        ref = TaskRef(own(thread_id), (await caller.get(task_id)).history[0].message_id)
        assert ref.id == task_id
        configs = PushConfigs(client, private=True, decisions=ClientDecisions.ALL)
        given = [hook.config(f"c{number}") for number in range(push_configs.MAX_PER_TASK + 5)]
        await asyncio.gather(*(configs.set(ref, each) for each in given), return_exceptions=True)
        kept = await configs.list(ref)
        assert len(kept) == push_configs.MAX_PER_TASK
        await caller.official.cancel_task(CancelTaskRequest(id=task_id))
        await until_ended(client, thread_id)
    assert hook.states.count(CANCELED) == len(kept)


async def test_a_webhook_that_sends_a_byte_now_and_then_does_not_hold_a_notification(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhooks, "POST_SECONDS", 2.0)
    async with dripping() as drip:
        config = PushConfig(id="c", task_id="t.1", message_id="m", url=drip.url, private=True)
        async with asyncio.timeout(BOUND_SECONDS) as bound:
            with pytest.raises(TimeoutError):
                await post_task(config, Task(id="t.1"), id="n")
        assert not bound.expired()


async def test_notifications_have_a_part_of_the_slots_of_a_worker_and_leave_the_rest(
    temporal: TemporalClient, thread_id: str
) -> None:
    settings = worker_settings(task_queue=thread_id, max_concurrent_activities=4)
    client = Client(temporal, task_queue=thread_id)
    async with (
        dripping() as drip,
        running_worker(temporal, registry, settings),
        serving(client) as url,
        calling(url, thread_id) as caller,
    ):
        task_id = await task_with(caller, "approve", TaskPushNotificationConfig(id="c0", url=drip.url))
        for number in range(1, 5):
            await caller.official.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task_id, id=f"c{number}", url=drip.url)
            )
        handle = temporal.get_workflow_handle(ids.push_id(own(thread_id)))
        async with asyncio.timeout(BOUND_SECONDS):
            while True:  # until all but one were tried and sent away
                pending = (await handle.describe()).raw_description.pending_activities
                if sum(each.attempt > 1 for each in pending) >= 4:
                    break
                await asyncio.sleep(0.05)
        assert (await client.run("tester", "add")).response == "the sum is 5"
        assert drip.most == 1
        await handle.terminate()
        await caller.official.cancel_task(CancelTaskRequest(id=task_id))


@dataclasses.dataclass
class Drip:
    """A webhook whose answer never ends, and how many connections it has had at the same time."""

    url: str = ""
    open: int = 0
    most: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            with contextlib.suppress(ConnectionError):
                writer.write(b"HTTP/1.1 200 OK\r\nX-A: ")
                while not reader.at_eof():
                    writer.write(b"a")
                    await writer.drain()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.1):
                            await reader.read(1000)
        finally:
            self.open -= 1
            writer.close()


@contextlib.asynccontextmanager
async def dripping() -> AsyncIterator[Drip]:
    drip = Drip()
    server = await asyncio.start_server(drip.answer, "127.0.0.1", 0)
    drip.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield drip
    finally:
        server.close()


async def test_a_config_that_is_refused_sends_no_message(client: Client, hook: Webhook, thread_id: str) -> None:
    async with serving(client, push_private=False) as url, calling(url, thread_id) as caller:
        with pytest.raises(InvalidParamsError, match=r"has no public address.*--push-private"):
            await task_with(caller, "hello", hook.config())
        assert await describe(client.temporal, own(thread_id)) is None


async def test_a_webhook_whose_name_gets_another_address_is_not_posted_to(hook: Webhook) -> None:
    config = PushConfig(id="c", task_id="t.1", message_id="m", url=hook.url.replace("127.0.0.1", "localhost"))
    with pytest.raises(WebhookRefused, match="no public address"):
        await post_task(config, Task(id="t.1"), id="n")
    await post_task(config.model_copy(update={"private": True}), Task(id="t.1"), id="n")
    assert hook.headers[0]["host"].startswith("localhost:")


async def test_the_push_notifications_of_a_thread_are_deleted_with_it(
    url: str, client: Client, hook: Webhook, thread_id: str
) -> None:
    async with calling(url, thread_id) as caller:
        task_id = await task_with(caller, "approve", hook.config())
        await hook.until(INPUT_REQUIRED)
        found = await plan_delete(client.temporal, own(thread_id))
        assert found.pushes == (ids.push_id(own(thread_id)),)
        assert [key.workflow_id for key in found.open] == [ids.push_id(own(thread_id)), own(thread_id)]
        await caller.official.cancel_task(CancelTaskRequest(id=task_id))


async def test_a_long_history_is_continued_as_new_and_loses_no_config_and_repeats_no_state(
    url: str, client: Client, hook: Webhook, thread_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(a2a_push, "is_long", lambda: workflow.info().get_current_history_length() > 12)
    async with calling(url, thread_id) as caller:
        task_id = await task_with(caller, "approve", hook.config("c1"))
        await hook.until(INPUT_REQUIRED)
        wanted = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        assert [it.id for it in (await caller.official.list_task_push_notification_configs(wanted)).configs] == ["c1"]
        await client.decide(own(thread_id), "1-1", "resume", result="go")
        await hook.until(COMPLETED)
        await until_ended(client, thread_id)
    assert hook.states == [SUBMITTED, WORKING, INPUT_REQUIRED, WORKING, COMPLETED]
    described = await client.temporal.get_workflow_handle(ids.push_id(own(thread_id))).describe()
    assert described.raw_description.workflow_execution_info.first_run_id != described.run_id
