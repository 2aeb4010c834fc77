"""The threads of a tenant or a user on the real server: which are found, which are deleted, and which stay."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.client import Client as TemporalClient

from tests.support.encrypted import Encryption
from tests.support.namespaces import empty_namespace, register
from tests.support.processes import wakeful
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Agent, CallerError, Registry, RunStatus, ScriptedModel, ThreadMode, call, say, tool
from wakeful.client.cancel_many import filter_of, select_runs
from wakeful.client.client import Client
from wakeful.client.deletion.owned import OwnedFilter, OwnedThreads, find_owned
from wakeful.contract.users import MAX_USERS
from wakeful.worker import WorkerSettings, running_worker

KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
KEYWORD_LIST = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST
NO_LISTS = {f"WakefulList{number}": KEYWORD_LIST for number in range(3)}
NO_ROOM = NO_LISTS | {f"WakefulWord{number}": KEYWORD for number in range(10)}
"""Attributes that leave no room for ours in a SQL store."""


@tool(read_only=True)
async def hold() -> str:
    """Hold on."""
    await asyncio.Event().wait()
    return ""


REGISTRY = Registry(
    agents=[Agent(id="desk", tools=[hold], delegates=["helper"]), Agent(id="helper", tools=[hold])],
    models={
        "default": ScriptedModel(
            [say("hello")], when={"ask": [call("agent_run_helper", prompt="hold"), say("so")], "hold": [call("hold")]}
        )
    },
)


@asynccontextmanager
async def served(temporal: TemporalClient) -> AsyncIterator[Client]:
    settings = WorkerSettings(task_queue="owned", sweep_interval=None, graceful_shutdown=timedelta())
    async with running_worker(temporal, REGISTRY, settings), Client(temporal, task_queue="owned") as client:
        yield client


@pytest.fixture
async def desk(temporal: TemporalClient) -> AsyncIterator[Client]:
    """In a namespace of its own: a search for what is not known of other threads would find those of other tests."""
    async with served(await empty_namespace(temporal)) as client:
        yield client


async def talk(client: Client, thread_id: str, *users: str | None, tenant: str | None = None) -> None:
    """Let these users write to a thread, one after another."""
    for runs, user in enumerate(users, 1):
        await client.send(thread_id, "hello", agent_id="desk", user=user, tenant=tenant)
        await idle(client, thread_id, runs=runs)


async def idle(client: Client, thread_id: str, *, runs: int) -> None:
    await until(client, thread_id, lambda view: view.runs == runs and view.status is RunStatus.DONE)


async def until_listed(client: Client, thread_id: str, *users: str, more: bool = False) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while [(users, more)] != [
            (each.users, each.more_users) async for each in client.threads(query=f"WorkflowId = '{thread_id}'")
        ]:
            await asyncio.sleep(0.05)


async def until_found(
    client: Client, found: OwnedThreads, *, user: str | None = None, tenant: str | None = None
) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while (now := await client.threads_of(user=user, tenant=tenant)) != found:
            await asyncio.sleep(0.1)
            print(now)  # shown if the test fails


async def listed(client: Client, user: str) -> set[str]:
    return {each.thread_id async for each in client.threads(user=user)}


async def read_by(client: Client, wanted: OwnedFilter) -> tuple[OwnedThreads, list[int]]:
    """What is found, and what was read for it."""
    read = list[int]()
    return await find_owned(client.reader, wanted, on_progress=read.append), read


async def test_everyone_who_wrote_to_a_thread_finds_it(desk: Client) -> None:
    """B-666"""
    await talk(desk, "t1", "ann", "bob", None)
    await talk(desk, "t2", None)
    await until_listed(desk, "t1", "ann", "bob")
    assert [await listed(desk, user) for user in ("ann", "bob", "eve")] == [{"t1"}, {"t1"}, set()]
    view = await desk.status("t1")
    assert (view.identity.user, view.users, view.more_users) == (None, ("ann", "bob"), False)
    await until_listed(desk, "t2")
    shared = OwnedThreads(shared={"t1": ("bob",)})
    assert await read_by(desk, OwnedFilter(user="ann")) == (shared, [])
    assert await read_by(desk, OwnedFilter(user="eve")) == (OwnedThreads(), [])


async def test_users_survive_a_wake_and_reach_forks(desk: Client) -> None:
    """B-666"""
    await talk(desk, "t1", "ann")
    await desk.close("t1")
    await desk.result("t1")
    await desk.send("t1", "hello", user="bob")
    await idle(desk, "t1", runs=2)
    fork = await desk.fork("t1", at=2, message="hello", user="eve")
    await desk.result(fork)
    await until_listed(desk, "t1", "ann", "bob")
    await until_listed(desk, fork, "ann", "bob", "eve")


async def test_a_user_beyond_the_listed_ones_is_found_by_reading(desk: Client) -> None:
    """B-667"""
    users = [f"user {number}" for number in range(MAX_USERS + 2)]
    await desk.send("t1", "hello", agent_id="desk", user=users[0])
    for user in users[1:]:
        await desk.send("t1", "hello", user=user)
    await idle(desk, "t1", runs=len(users))
    await until_listed(desk, "t1", *users[:MAX_USERS], more=True)
    found, read = await read_by(desk, OwnedFilter(user=users[-1]))
    assert (found.own, set(found.shared["t1"]), len(read)) == ((), set(users[:-1]), 1)
    assert (await desk.threads_of(user="eve")) == OwnedThreads()
    await desk.close("t1")


async def test_only_threads_that_no_other_user_wrote_to_are_deleted(desk: Client) -> None:
    """B-667"""
    address, namespace = desk.temporal.service_client.config.target_host, desk.temporal.namespace
    await talk(desk, "own", "ann", None)
    await talk(desk, "shared", "ann", "bob")
    await talk(desk, "other", "bob")
    await desk.start("desk", "ask", thread_id="asking", user="ann", mode=ThreadMode.THREAD)
    (helper,) = (await until(desk, "asking", lambda view: bool(view.children))).children
    await until_found(desk, OwnedThreads(own=("own", "asking"), shared={"shared": ("bob",)}), user="ann")
    await desk.send(helper, "hold", user="bob", on_busy="interrupt")  # a sub-agent is deleted with its parent
    of_bob = OwnedThreads(own=("own",), shared={"shared": ("bob",), "asking": ("bob",)})
    await until_found(desk, of_bob, user="ann")
    of_ann = OwnedThreads(own=("other",), shared={"shared": ("ann",), "asking": ("ann",)})
    await until_found(desk, of_ann, user="bob")
    done = await wakeful("delete", "--user", "ann", "--yes", "--namespace", namespace, address=address)
    assert done.code == 1, done.err
    assert done.out.splitlines() == [
        "thread own is deleted: 1 execution, 1 thread",
        "thread shared is not deleted",
        "  remaining  shared: bob wrote to it, too; to delete it whole: wakeful delete shared",
        "thread asking is not deleted",
        "  remaining  asking: bob wrote to it, too; to delete it whole: wakeful delete asking",
    ]
    nothing = await wakeful("delete", "--user", "eve", "--yes", "--namespace", namespace, address=address)
    assert (nothing.code, nothing.err) == (1, "wakeful: no thread matches the user 'eve'\n")
    assert {each.thread_id async for each in desk.threads()} == {"shared", "asking", "other"}


async def test_users_of_two_tenants_may_have_the_same_name(desk: Client) -> None:
    """B-667"""
    for tenant in ("acme", "beta"):
        await talk(desk, tenant, "ann", tenant=tenant)
    await until_found(desk, OwnedThreads(own=("acme", "beta")), user="ann")
    assert await desk.threads_of(tenant="beta", user="ann") == OwnedThreads(own=("beta",))
    assert await desk.threads_of(tenant="acme") == OwnedThreads(own=("acme",))
    assert await desk.threads_of(user="ann", query="WorkflowId = 'acme'") == OwnedThreads(own=("acme",))
    # A request of another tenant to restore the thread is refused, but was an execution of it.
    await desk.close("acme")
    await desk.result("acme")
    closed = await desk.handle("acme").describe()
    request = {"agent_id": "desk", "input": "mine", "tenant": "beta", "user": "ann", "restore_from": closed.run_id}
    await desk.temporal.start_workflow("AgentRun", request, id="acme", task_queue="owned")
    assert (await desk.result("acme")).status_reason.startswith("error")
    problem = {"acme": "an execution of 'acme' is of tenant 'acme'"}
    await until_found(desk, OwnedThreads(own=("beta",), unknown=problem), tenant="beta", user="ann")


@pytest.mark.parametrize("lacking", [NO_ROOM, {"WakefulUsers": KEYWORD}], ids=["all", "users"])
async def test_threads_are_read_where_lists_do_not_show_their_users(
    temporal: TemporalClient, lacking: dict[str, IndexedValueType.ValueType]
) -> None:
    """B-667"""
    namespace = await empty_namespace(temporal)
    await register(namespace, **lacking)
    async with served(namespace) as client:
        await talk(client, "own", "ann", tenant="acme")
        await talk(client, "shared", "ann", "bob", tenant="acme")
        await talk(client, "other", "bob", tenant="beta")
        found = OwnedThreads(own=("own",), shared={"shared": ("bob",)})
        await until_found(client, found, user="ann")
        assert await read_by(client, OwnedFilter(tenant="acme", user="ann")) == (
            found,
            [1, 2, 3][: await _read(client)],
        )
        assert await client.threads_of(tenant="beta") == OwnedThreads(own=("other",))


async def _read(client: Client) -> int:
    """How many threads a search for a tenant's user has to read: all, if lists do not even show the tenant."""
    shown = [each.tenant async for each in client.threads(subagents=True)]
    return 2 if any(shown) else 3


async def test_a_list_by_user_finds_newest_runs_where_only_those_are_shown(temporal: TemporalClient) -> None:
    """B-666"""
    namespace = await empty_namespace(temporal)
    await register(namespace, **NO_LISTS)
    async with served(namespace) as client:
        await talk(client, "t1", "ann", "bob")
        async with asyncio.timeout(BOUND_SECONDS):
            while await listed(client, "bob") != {"t1"}:
                await asyncio.sleep(0.05)
        assert await listed(client, "ann") == set()


async def test_a_list_by_user_is_refused_where_no_user_is_shown(temporal: TemporalClient) -> None:
    client = Client(await empty_namespace(temporal))
    with pytest.raises(CallerError, match=r"Temporal does not understand the filter .*WakefulUser = 'ann'"):
        await listed(client, "ann")


async def test_a_thread_that_no_worker_has_started_is_its_senders(temporal: TemporalClient) -> None:
    """B-667"""
    client = Client(await empty_namespace(temporal))
    await client.start("desk", "hello", thread_id="t1", user="ann", tenant="acme")
    await client.submit("t1", "me, too", user="bob")
    await client.handle("t1").signal("submit", {"input": 1})
    await client.temporal.start_workflow("AgentRun", {"input": "no agent"}, id="t2", task_queue="owned")
    await until_found(client, OwnedThreads(shared={"t1": ("bob",)}), user="ann", tenant="acme")
    await until_found(client, OwnedThreads(shared={"t1": ("ann",)}), user="bob")


async def test_a_thread_that_cannot_be_read_is_named_and_stays(temporal: TemporalClient) -> None:
    """B-667"""
    namespace = await empty_namespace(temporal)
    config = namespace.config()
    config["data_converter"] = replace(namespace.data_converter, payload_codec=Encryption())
    encrypted, client = Client(TemporalClient(**config)), Client(namespace)
    await encrypted.start("desk", "hello", thread_id="-t1", user="ann")
    async with asyncio.timeout(BOUND_SECONDS):
        while not (found := await client.threads_of(user="ann")).unknown:
            await asyncio.sleep(0.1)
    assert (found.own, list(found.unknown)) == ((), ["-t1"])
    address = namespace.service_client.config.target_host
    done = await wakeful(
        "delete", "--user", "ann", "--yes", "--json", "--namespace", namespace.namespace, address=address
    )
    assert done.out, done.err
    (remaining,) = json.loads(done.out)["remaining"]
    assert (done.code, remaining["id"]) == (1, "-t1")
    assert remaining["reason"].startswith("it cannot be said whose it is: ")
    assert remaining["reason"].endswith("; to delete it whole: wakeful delete -- -t1")


async def test_what_was_refused_says_for_whom_it_was_asked(desk: Client) -> None:
    await desk.temporal.start_workflow("AgentRun", {"user": "ann", "input": 1}, id="t1", task_queue="owned")
    await desk.temporal.start_workflow("AgentRun", {"input": 1}, id="t2", task_queue="owned")
    await until_listed(desk, "t1", "ann")
    await until_found(desk, OwnedThreads(own=("t1",)), user="ann")
    assert await read_by(desk, OwnedFilter(user="eve")) == (OwnedThreads(), [])


async def test_the_runs_of_one_user_are_cancelled(desk: Client) -> None:
    """B-673"""
    address, namespace = desk.temporal.service_client.config.target_host, desk.temporal.namespace
    for user in ("ann", "bob"):
        await desk.start("desk", "hold", thread_id=user, user=user, tenant="acme")
        await until(desk, user, lambda view: view.doing == "running hold")
    filter = filter_of(tenant="acme", user="ann")
    async with asyncio.timeout(BOUND_SECONDS):
        while [run.thread_id for run in await select_runs(desk.temporal, filter)] != ["ann"]:
            await asyncio.sleep(0.05)
    done = await wakeful(
        "cancel", "--tenant", "acme", "--user", "ann", "--yes", "--namespace", namespace, address=address
    )
    assert (done.code, done.out) == (0, "cancelled 1 run\n"), done.err
    assert (await desk.status("bob")).status is RunStatus.RUNNING


async def test_each_message_of_a_shown_thread_has_the_user_for_whom_it_was_read(desk: Client) -> None:
    """B-666"""
    address, namespace = desk.temporal.service_client.config.target_host, desk.temporal.namespace
    await talk(desk, "t1", "ann", None, "bob")
    fork = await desk.fork("t1", at=1, message="and?", user="eve")
    await desk.result(fork)

    async def shown(*args: str) -> list[tuple[str, str | None]]:
        ran = await wakeful("show", *args, "--json", "--namespace", namespace, address=address)
        assert ran.code == 0, ran.err
        messages = [json.loads(line) for line in ran.out.splitlines()]
        return [(message["role"], message.get("user")) for message in messages]

    answer = ("assistant", None)
    assert await shown("t1") == [("user", "ann"), answer, ("user", None), answer, ("user", "bob"), answer]
    assert await shown("t1", "--at", "1") == [("user", "ann"), answer]
    assert await shown(fork) == [("user", "ann"), answer, ("user", "eve"), answer]
    await desk.delete("t1")
    assert await shown(fork) == [("user", None), answer, ("user", "eve"), answer]


@pytest.mark.parametrize("args", [["t1", "--user", "ann"], ["t1", "--tenant", "acme"]])
async def test_a_named_thread_is_not_deleted_for_one_user_or_tenant(args: list[str]) -> None:
    ran = await wakeful("delete", *args)
    assert (ran.code, "a thread that you name is deleted whole" in " ".join(ran.err.split())) == (2, True)


async def test_a_search_for_threads_names_their_owner(desk: Client) -> None:
    with pytest.raises(CallerError, match="say whose threads"):
        await desk.threads_of(query="WorkflowId = 't1'")
    with pytest.raises(CallerError, match="is not a list filter"):
        await desk.threads_of(user="ann", query="Nonsense = 1")
