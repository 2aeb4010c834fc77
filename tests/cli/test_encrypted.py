"""Every command in a namespace of encrypted payloads: with the factory it works, without one it says so (B-671)."""

import asyncio
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.encrypted import FACTORY, WITH_ANOTHER_KEY
from tests.support.namespaces import empty_namespace
from tests.support.processes import Ran, dev_process, wakeful, worker_process
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import RunStatus, ThreadMode
from wakeful.cli.app import COMMANDS
from wakeful.client.client import Client
from wakeful.client_factory import VARIABLE, call_factory
from wakeful.contract.runs import Cancelled
from wakeful.storage import data_converter
from wakeful.worker import WorkerSettings, running_worker

WAITING, QUEUED, ENDED, RULED = "approve", "approve, then more", "hi", "one"
"""Inputs that lead to a thread that waits for a decision, also with a message in its queue, to one that has ended, and
to one with a permission rule of its own."""

NO_CODEC = "the encoding 'binary/encrypted', for which this client has no codec"
HOW = "name a function that returns your Temporal client, with --client module:function or WAKEFUL_CLIENT"


@dataclass(frozen=True)
class Case:
    """A command on a thread, which `{}` stands for, and what it prints with the factory."""

    args: str
    shows: str
    input: str = WAITING
    stdin: str = ""
    code: int = 1
    """Without the factory; 0 if it decodes nothing."""


CASES = {
    "run": Case("tester hi", "hello, hi"),
    "chat": Case("tester --thread new-{}", "hello, hi", stdin="hi\n"),
    "send": Case("{} more", "sent: message"),
    "queue": Case("{}", " {} m1", QUEUED),
    "edit": Case("{} m1 less", "edited: m1", QUEUED),
    "withdraw": Case("{} m1", "withdrawn: m1", QUEUED),
    "permissions": Case("{}", "(any other call)"),
    "revoke": Case("{} pay", "revoked: pay", RULED),
    "inbox": Case("--thread {}", " {}/1-1"),
    "approve": Case("{}/1-1", "approved  {}/1-1"),
    "deny": Case("{}/1-1", "denied    {}/1-1"),
    "decide": Case("{} 1-1 cancel", "denied    {}/1-1"),
    "decisions": Case("--thread {}", "approved", RULED),
    "list": Case("--closed", "{}", ENDED, code=0),
    "status": Case("{}", "waiting for a decision on approve"),
    "show": Case("{}", "hello, hi", ENDED),
    "watch": Case("{}", "hello, hi", ENDED),
    "tree": Case("{}", "tester"),
    "why": Case("{}", "waiting for a decision on approve"),
    "fork": Case("{} --at 0 -m hi", "hello, hi", ENDED),
    "rewind": Case("{} --to 0 --yes", "step"),
    "diff": Case("{} {}", "same", ENDED),
    "cancel": Case("{}", "cancelled", code=0),
    "close": Case("{}", "closed"),
    "delete": Case("{} --yes", "deleted", code=0),
    "undelivered": Case("{}", "has no undelivered messages"),
    "replay": Case("{}", "✓ {}", code=2),
    "schedule": Case("create tester hi --every 1d --id {}", "created: schedule {}", code=0),
}

ELSEWHERE = {
    "a2a": "it serves until it is stopped",
    "agents": "it connects to no namespace",
    "mcp": "it serves until it is stopped, or connects to no namespace",
    "demo": "it has a server and a client of its own",
    "doctor": "test_the_doctor_says_that_threads_cannot_be_decoded",
    "dev": "test_dev_serves_its_own_server_with_the_factory",
    "worker": "test_a_worker_without_the_codec_says_what_is_missing",
}


@pytest.fixture(scope="module")
async def encrypted(temporal: TemporalClient) -> AsyncIterator[Client]:
    """A namespace with a worker that encrypts."""
    empty = await empty_namespace(temporal)
    arguments = {"address": temporal.service_client.config.target_host, "namespace": empty.namespace}
    company = await call_factory(FACTORY, arguments)
    async with running_worker(company, registry), Client(company) as client:
        yield client


async def thread(client: Client, command: str, input: str) -> str:
    """A thread of the command's own."""
    mode, agent = (ThreadMode.THREAD, "ruled") if input == RULED else (ThreadMode.RUN, "tester")
    thread_id = await client.start(agent, input, thread_id=f"of-{command}", mode=mode)
    await until_status(client, thread_id, RunStatus.DONE if input == ENDED else RunStatus.WAITING)
    if input == QUEUED:
        await client.send(thread_id, "more", message_id="m1", confirm=True)
    if input == RULED:
        await client.decide(thread_id, "1-1", "resume", always=True)
        await until_status(client, thread_id, RunStatus.DONE)
    return thread_id


def cluster(client: Client) -> tuple[str, str]:
    return client.temporal.service_client.config.target_host, client.temporal.namespace


async def run(client: Client, *args: str, stdin: str = "", factory: str = "") -> Ran:
    address, namespace = cluster(client)
    return await wakeful(*args, "-n", namespace, address=address, stdin=stdin, **{VARIABLE: factory})


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ELSEWHERE])
async def test_a_command_needs_the_factory_to_read_encrypted_payloads(encrypted: Client, command: str) -> None:
    case = CASES[command]
    id = await thread(encrypted, command, case.input)
    without = await run(encrypted, command, *case.args.replace("{}", id).split(), stdin=case.stdin)
    assert "Traceback" not in without.err
    assert without.code == case.code
    if case.code:
        assert NO_CODEC in without.out + without.err
        assert HOW in without.out + without.err
    else:
        id = await thread(encrypted, f"{command}-again", case.input)
    args = (command, *case.args.replace("{}", id).split(), "--client", FACTORY)
    shown = await run(encrypted, *args, stdin=case.stdin)
    assert (shown.code, case.shows.replace("{}", id) in shown.out) == (0, True), (shown.out, shown.err)


async def test_the_doctor_says_that_threads_cannot_be_decoded(encrypted: Client) -> None:
    """It finds more than that in the environment of a test, so its exit code is not checked with the factory."""
    await thread(encrypted, "doctor", ENDED)
    without = await run(encrypted, "doctor")
    assert (without.code, "Traceback" in without.out + without.err) == (1, False)
    said = " ".join(without.out.split())
    assert "cannot be decoded here" in said
    assert NO_CODEC in said
    assert "--client module:function" in said
    shown = await run(encrypted, "doctor", "--client", FACTORY)
    assert "cannot be decoded here" not in " ".join(shown.out.split())


async def test_one_run_that_cannot_be_decoded_leaves_the_inbox_readable(encrypted: Client) -> None:
    await thread(encrypted, "encrypted-beside", WAITING)
    address, namespace = cluster(encrypted)
    plain = Client(
        await TemporalClient.connect(address, namespace=namespace, data_converter=await data_converter({})),
        task_queue="plain",
    )
    settings = WorkerSettings(task_queue="plain", sweep_interval=None)
    async with running_worker(plain.temporal, registry, settings), plain:
        await plain.start("tester", WAITING, thread_id="readable")
        await until_status(plain, "readable", RunStatus.WAITING)
        listed = await run(encrypted, "inbox")
    assert listed.code == 0
    assert NO_CODEC in listed.out
    assert re.search(r"wakeful approve --namespace \S+ readable/1-1", listed.out)


async def test_the_message_of_a_schedule_is_encrypted_and_lists_need_no_codec(encrypted: Client) -> None:
    args = ("create", "tester", "SECRET", "--cron", "0 9 * * *", "--thread", "t", "--id", "encrypted")
    assert (await run(encrypted, "schedule", *args, factory=FACTORY)).code == 0
    described = await encrypted.temporal.get_schedule_handle("encrypted").describe()
    assert b"SECRET" not in described.raw_description.SerializeToString()
    entry = '{"schedule_id":"encrypted","agent_id":"tester","thread_id":"t",'
    async with asyncio.timeout(BOUND_SECONDS):
        while entry not in (await run(encrypted, "schedule", "list", "tester", "--json")).out:
            pass  # visibility is eventually consistent
    deleted = await run(encrypted, "schedule", "delete", "encrypted")
    assert (deleted.code, deleted.out) == (0, "deleted: schedule encrypted\n")


@pytest.mark.parametrize("found", [False, True])
async def test_a_run_whose_mode_cannot_be_decoded_is_stopped_by_temporals_own_cancel(
    encrypted: Client, found: bool
) -> None:
    id = await thread(encrypted, f"cancel-{found}", WAITING)
    args = ("--query", f"WorkflowId = '{id}'", "--yes") if found else (id,)
    ran = await run(encrypted, "cancel", *args)
    assert (ran.code, "by Temporal's own cancel, which closes the thread" in ran.out) == (0, True), (ran.out, ran.err)
    assert isinstance((await encrypted.result(id)).termination, Cancelled)


@pytest.mark.parametrize(("command", "code"), [("status", 1), ("replay", 2)])
async def test_a_codec_with_another_key_is_named(encrypted: Client, command: str, code: int) -> None:
    id = await thread(encrypted, f"another-key-{command}", ENDED)
    ran = await run(encrypted, command, id, factory=WITH_ANOTHER_KEY)
    assert (ran.code, "Traceback" in ran.err) == (code, False)
    says = (
        f"event 1 of thread {id!r} cannot be decoded here: the payload codec 'Encryption' raised ValueError: encrypted"
    )
    assert says in ran.out + ran.err


async def test_a_message_that_the_workers_of_a_thread_cannot_decode_is_not_sent(encrypted: Client) -> None:
    id = await thread(encrypted, "send-with-another-key", WAITING)
    ran = await run(encrypted, "send", id, "more", factory=WITH_ANOTHER_KEY)
    assert ran.code == 1
    assert f"thread {id!r} cannot be decoded here: the payload codec 'Encryption' raised ValueError" in ran.err


@pytest.mark.integration
async def test_a_worker_without_the_codec_says_what_is_missing(encrypted: Client, tmp_path: Path) -> None:
    address, namespace = cluster(encrypted)
    lost = Client(encrypted.temporal, task_queue="no-codec")
    await lost.start("tester", ENDED, thread_id="no-codec")
    options = ("-n", namespace, "--graceful-shutdown", "3")
    async with worker_process(address, "no-codec", tmp_path / "j", *options, errors=subprocess.PIPE) as process:
        assert process.stderr is not None
        async with asyncio.timeout(BOUND_SECONDS):
            async for line in process.stderr:
                if HOW in line.decode():
                    break
            process.send_signal(signal.SIGTERM)
            rest = (await process.stderr.read()).decode()
    assert "will wait 0:00:03 before cancelling activities" in rest
    async with worker_process(address, "no-codec", tmp_path / "j", *options, "--client", FACTORY):
        assert (await lost.result("no-codec")).response == "hello, hi"


@pytest.mark.integration
async def test_dev_serves_its_own_server_with_the_factory() -> None:
    async with dev_process("--client", FACTORY, "--app", "tests.support.app:registry") as where:
        ran = await wakeful("run", "tester", "hi", address=where["address"], **{VARIABLE: FACTORY})
        assert ran.out.splitlines()[-1] == "hello, hi"
