"""`wakeful inbox`, `approve` and `deny`: pending decisions are shown, and each answer's outcome is reported."""

import asyncio
import getpass
import json
import os
import re
import shlex
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.namespaces import empty_namespace
from tests.support.processes import WAKEFUL, running, wakeful
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import RunStatus
from wakeful.cli.session import TIMEOUT_VARIABLE, query_timeout
from wakeful.cli.terminal.pending_lines import inbox_lines
from wakeful.cli.terminal.text import approve_command, deny_command, duration
from wakeful.client.approvals import PendingDecision
from wakeful.client.client import Client
from wakeful.client.queries import QUERY_TIMEOUT
from wakeful.connection import temporal_command
from wakeful.contract.errors import ConfigurationError
from wakeful.worker import WorkerSettings, running_worker


@pytest.fixture
def address(temporal: TemporalClient) -> str:
    return temporal.service_client.config.target_host


@pytest.fixture(scope="module")
async def own_namespace(temporal: TemporalClient) -> AsyncIterator[Client]:
    """A namespace without the open threads of other tests, which the inbox would query in vain."""
    namespace = await empty_namespace(temporal)
    async with running_worker(namespace, registry):
        yield Client(namespace)


async def start_waiting(client: Client, thread_id: str, agent: str = "tester", text: str = "approve") -> None:
    """Start a run that waits for a decision, and wait until it is listed."""
    await client.start(agent, text, thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    async with asyncio.timeout(BOUND_SECONDS):
        while not [entry async for entry in client.inbox(thread_id=thread_id)]:
            await asyncio.sleep(0.05)


async def test_the_inbox_shows_pending_decisions_and_its_commands_answer_them(
    own_namespace: Client, address: str, thread_id: str
) -> None:
    client, thread = own_namespace, f"team/{thread_id}"
    where = ["--namespace", client.temporal.namespace]
    await start_waiting(client, thread)
    listed = await wakeful("inbox", "--agent", "tester", "--tool", "approve", *where, address=address)
    shown = listed.out.splitlines()
    (row,) = [number for number, line in enumerate(shown) if f" {thread} " in line]
    assert shown[0].split() == ["AGE", "DEADLINE", "THREAD", "AGENT", "CALL"]
    assert re.fullmatch(rf'\d+s +- +{thread} +tester +approve\(what="launch"\)', shown[row])
    assert [line.strip() for line in shown[row + 1 : row + 4]] == [
        "May I launch?",
        f"wakeful approve {shlex.join(where)} {thread}/1-1",
        f"wakeful deny {shlex.join(where)} {thread}/1-1",
    ]
    answered = await wakeful(*shlex.split(shown[row + 2])[1:], address=address)
    assert (answered.code, answered.out) == (0, f'approved  {thread}/1-1: approve(what="launch")\n')
    assert (await client.result(thread)).status_reason == "natural"


async def test_the_inbox_prints_json_for_programs(own_namespace: Client, address: str, thread_id: str) -> None:
    client, namespace = own_namespace, own_namespace.temporal.namespace
    await start_waiting(client, thread_id)
    lines = (await wakeful("inbox", "--json", "--namespace", namespace, address=address)).out.splitlines()
    (found,) = [entry for entry in map(json.loads, lines) if entry["thread_id"] == thread_id]
    assert (found["ticket"], found["arguments"]) == (f"{thread_id}/1-1", {"what": "launch"})
    await client.cancel(thread_id)


async def test_an_empty_inbox_says_so(temporal: TemporalClient, address: str) -> None:
    namespace = await empty_namespace(temporal)
    ran = await wakeful("inbox", "--namespace", namespace.namespace, address=address)
    assert (ran.code, ran.out) == (0, "no pending decisions\n")


async def test_a_watched_inbox_shows_each_decision_once(own_namespace: Client, address: str, thread_id: str) -> None:
    client = own_namespace
    command = ("inbox", "--watch", "--json", "--namespace", client.temporal.namespace)
    seen: list[str] = []
    async with running(*command, address=address) as program, asyncio.timeout(BOUND_SECONDS):
        assert program.stdout is not None
        for thread in (f"{thread_id}-1", f"{thread_id}-2"):
            await client.start("tester", "approve", thread_id=thread)
            while thread not in seen:
                seen.append(json.loads(await program.stdout.readline())["thread_id"])
    assert [thread for thread in seen if thread.startswith(thread_id)] == [f"{thread_id}-1", f"{thread_id}-2"]
    for thread in set(seen) & {f"{thread_id}-1", f"{thread_id}-2"}:
        await client.cancel(thread)


async def test_several_tickets_are_answered_and_each_is_reported(client: Client, address: str, thread_id: str) -> None:
    first, second = f"{thread_id}-1", f"{thread_id}-2"
    await start_waiting(client, first)
    await start_waiting(client, second, "parallel", "two approvals")
    tickets = [f"{first}/suspend_1-1", f"{second}/1-1", f"{second}/9-9", "nowhere/1-1"]
    ran = await wakeful("approve", *tickets, "--reason", "fine", address=address)
    assert (ran.code, ran.out.splitlines()) == (
        1,
        [
            f'approved  {first}/suspend_1-1: approve(what="launch")',
            f'approved  {second}/1-1: approve(what="launch")',
        ],
    )
    not_waiting, nowhere = ran.err.splitlines()
    refusal = f"wakeful: {second}/9-9: refused: '9-9' is not waiting for a decision; waiting on this thread: "
    assert not_waiting.startswith(refusal)
    assert nowhere == "wakeful: nowhere/1-1: no thread 'nowhere' in this namespace"
    again = await wakeful("approve", f"{second}/9-9", address=address)
    assert (again.code, again.err) == (1, f"{refusal}1-2 (approve)\n")
    denied = await wakeful("deny", f"{second}/1-2", "--reason", "too late", address=address)
    assert (denied.code, denied.out) == (0, f'denied    {second}/1-2: approve(what="land")\n')
    assert (await client.result(first)).status_reason == "natural"
    await client.result(second)
    assert "cancelled by decision: too late" in (await client.transcript(second))[-2].text


async def test_a_second_answer_says_by_whom_and_when_the_ticket_was_answered(
    client: Client, address: str, thread_id: str
) -> None:
    await start_waiting(client, thread_id, "parallel", "two approvals")
    ticket = f"{thread_id}/1-1"
    assert (await wakeful("approve", ticket, "--actor", "ann", address=address)).code == 0
    said = (
        f"wakeful: {re.escape(ticket)}: refused: call '1-1' was already approved by 'ann' at "
        r"\d{4}-\d\d-\d\d \d\d:\d\d UTC\n"
    )
    again = await wakeful("deny", ticket, address=address)
    assert (again.code, bool(re.fullmatch(said, again.err))) == (1, True), again.err
    await wakeful("approve", f"{thread_id}/1-2", address=address)
    await client.result(thread_id)
    late = await wakeful("approve", ticket, address=address)
    assert (late.code, bool(re.fullmatch(said, late.err))) == (1, True), late.err


async def test_a_decision_records_who_made_it_and_what_was_shown(client: Client, address: str, thread_id: str) -> None:
    await start_waiting(client, thread_id)
    digest = (await client.status(thread_id)).pending[0].arguments_digest
    ran = await wakeful("approve", f"{thread_id}/1-1", "--result", '"yes"', address=address)
    assert ran.code == 0, ran.err
    await client.result(thread_id)
    sent = str(await client.handle(thread_id).fetch_history())
    assert digest is not None
    assert [part for part in (f"{getpass.getuser()}@{socket.gethostname()}", digest) if part not in sent] == []


async def test_a_call_may_resume_with_other_arguments(client: Client, address: str, thread_id: str) -> None:
    await start_waiting(client, thread_id)
    ticket = f"{thread_id}/1-1"
    always = await wakeful("approve", ticket, "--always", address=address)
    assert (always.code, always.out) == (1, "")
    assert always.err.startswith(f"wakeful: {ticket}: refused: --always is only for calls that a permission rule asked")
    wrong = await wakeful("approve", ticket, "--arguments", '{"what": 1}', address=address)
    assert wrong.err.startswith(f"wakeful: {ticket}: refused: call '1-1': the arguments do not match")
    ran = await wakeful("approve", ticket, "--arguments", '{"what": "land"}', address=address)
    assert (ran.code, ran.out) == (0, f'approved  {ticket}: approve(what="land")\n'), ran.err
    assert '"did":"land"' in (await client.result(thread_id)).response


async def test_without_a_worker_the_decision_waits_in_history(
    temporal: TemporalClient, address: str, thread_id: str
) -> None:
    client = Client(temporal, task_queue=thread_id)
    settings = WorkerSettings(task_queue=thread_id)
    async with running_worker(temporal, registry, settings):
        await start_waiting(client, thread_id)
    ran = await wakeful("approve", f"{thread_id}/1-1", address=address)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f'sent      {thread_id}/1-1: approve(what="launch") (no worker has handled the decision')
    async with running_worker(temporal, registry, settings):
        assert (await client.result(thread_id)).status_reason == "natural"


@pytest.mark.parametrize("command", ["wakeful approve", "wakeful deny", "temporal workflow signal"])
async def test_the_commands_in_temporal_ui_work_when_they_are_pasted(
    client: Client, address: str, thread_id: str, command: str
) -> None:
    thread = f"it's a team/thread {thread_id}"
    await start_waiting(client, thread)
    metadata = await client.handle(thread).query("__temporal_workflow_metadata")
    (block,) = re.findall(r"```\n(.*?)```", metadata.current_details, re.DOTALL)
    (pasted,) = [part for part in re.split(r"\n\n", block) if command in part]
    path = os.pathsep.join([str(Path(WAKEFUL).parent), str(Path(temporal_command()).parent), os.environ["PATH"]])
    process = await asyncio.create_subprocess_shell(
        pasted,
        env={**os.environ, "TEMPORAL_ADDRESS": address, "PATH": path},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    assert (await client.result(thread)).status_reason == "natural"
    was_denied = "cancelled by decision: not now" in (await client.transcript(thread))[-2].text
    assert was_denied == (command == "wakeful deny")


@pytest.mark.parametrize(
    ("written", "timeout"),
    [(None, QUERY_TIMEOUT), ("", QUERY_TIMEOUT), ("2.5", timedelta(seconds=2.5)), ("0.1", timedelta(milliseconds=100))],
)
def test_the_timeout_of_queries_comes_from_the_environment(
    written: str | None, timeout: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TIMEOUT_VARIABLE, raising=False)
    if written is not None:
        monkeypatch.setenv(TIMEOUT_VARIABLE, written)
    assert query_timeout() == timeout


@pytest.mark.parametrize("written", ["soon", "0", "-1", "inf", "nan"])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, written)
    with pytest.raises(ConfigurationError, match=f"WAKEFUL_QUERY_TIMEOUT is '{written}'; write a number of seconds"):
        query_timeout()


def test_a_ticket_that_looks_like_an_option_is_still_a_ticket() -> None:
    assert approve_command("-x/1-1") == "wakeful approve -- -x/1-1"
    assert deny_command("-x/1-1") == "wakeful deny -- -x/1-1"


async def test_printed_commands_reach_the_cluster_that_the_command_named(
    usual_client: Client, thread_id: str, address: str
) -> None:
    await usual_client.start("tester", "approve", thread_id=thread_id)
    await until_status(usual_client, thread_id, RunStatus.WAITING)
    named = await wakeful("inbox", "--thread", thread_id, "--address", address, "--namespace", "default")
    (command,) = re.findall(r"wakeful approve .*", named.out)
    ticket = command.split()[-1]
    assert command == f"wakeful approve --address {address} --namespace default {ticket}"
    in_environment = await wakeful("inbox", "--thread", thread_id, "--address", address, address=address)
    assert re.findall(r"wakeful approve .*", in_environment.out) == [f"wakeful approve {ticket}"]
    approved = await wakeful(*shlex.split(command)[1:])
    assert approved.code == 0, approved.err


def test_what_a_model_wrote_cannot_move_the_cursor() -> None:
    pending = PendingDecision(
        ticket="t/c",
        thread_id="t",
        agent_id="a",
        path=("root", "t"),
        call_id="c",
        tool_name="pay",
        arguments={"to": "\u202ebob\x9b2K"},
        message="Pay?\x1b[1A\r\nreally",
        since=0,
        age=90,
        expires_at=3_690_000,
    )
    assert inbox_lines([pending]) == [
        "AGE  DEADLINE  THREAD    AGENT  CALL",
        '1m   in 1h00m  root > t  a      pay(to="\\u202ebob\\u009b2K")',
        "      Pay?\\u001b[1A really",
        "      wakeful approve t/c",
        "      wakeful deny t/c",
    ]


def test_an_entry_of_which_only_a_part_is_listed_says_where_the_whole_is() -> None:
    pending = PendingDecision(ticket="t/c", thread_id="t", path=("t",), call_id="c", message="Pay 1…", cut=True)
    assert inbox_lines([pending])[2:4] == [
        "      Pay 1…",
        "      only a part is shown; see all: wakeful inbox --thread t --json",
    ]


@pytest.mark.parametrize(
    ("seconds", "says"), [(0.4, "0s"), (59, "59s"), (61, "1m"), (7500, "2h05m"), (86_400 * 6 + 5, "6d")]
)
def test_a_length_of_time_is_short_to_read(seconds: float, says: str) -> None:
    assert duration(seconds) == says
