"""What a shell is offered on Tab: it runs the command as the shell does, and reads what it prints."""

import asyncio
import os

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import ScheduleSpec

from tests.support.app import registry
from tests.support.encrypted import FACTORY
from tests.support.namespaces import empty_namespace
from tests.support.processes import ROOT, WAKEFUL, Ran, wakeful
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import RunStatus
from wakeful.client.client import Client
from wakeful.worker import running_worker


async def completed(*words: str, address: str = "127.0.0.1:1", namespace: str = "default") -> Ran:
    """What bash would offer for the last word."""
    shell = {"_WAKEFUL_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    process = await asyncio.create_subprocess_exec(
        WAKEFUL,
        cwd=ROOT,
        env={**os.environ, **shell, "TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": namespace},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(BOUND_SECONDS):
        out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def test_commands_and_options_are_offered() -> None:
    assert (await completed("wakeful", "st")).out.split() == ["status"]
    assert {"--live", "--no-live", "--descendants"} <= set((await completed("wakeful", "watch", "--")).out.split())


async def test_completion_is_printed_for_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # a test's parent process is no shell
    shown = await wakeful("--show-completion", "bash")
    assert shown.code == 0
    assert "_WAKEFUL_COMPLETE=complete_bash" in shown.out


@pytest.mark.parametrize("line", [("status", ""), pytest.param(("approve", ""), marks=pytest.mark.integration)])
async def test_nothing_is_offered_when_the_cluster_does_not_answer(line: tuple[str, ...]) -> None:
    assert await completed("wakeful", *line) == Ran(0, "\n", "")


@pytest.mark.integration
async def test_open_threads_their_tickets_and_their_agents_are_offered(temporal: TemporalClient) -> None:
    empty = await empty_namespace(temporal)
    address, namespace = temporal.service_client.config.target_host, empty.namespace
    client = Client(empty)
    async with running_worker(empty, registry):
        await client.run("parallel", "hi", thread_id="ended")
        await client.start("tester", "approve", thread_id="open-1")
        await until_status(client, "open-1", RunStatus.WAITING)
        daily = ScheduleSpec(cron_expressions=["0 9 * * *"])
        await client.schedules.create("tester", "hi", spec=daily, schedule_id="nightly")

    async def offered(*line: str) -> list[str]:
        """A list lags, and a machine that is busy may not answer within the second that a shell is made to wait."""
        async with asyncio.timeout(BOUND_SECONDS):
            while True:
                ran = await completed("wakeful", *line, address=address, namespace=namespace)
                assert (ran.code, ran.err) == (0, "")
                if found := ran.out.split():
                    return sorted(found)

    assert await offered("approve", "open") == ["open-1/1-1"]
    assert await offered("status", "op") == ["open-1"]
    assert await offered("watch", "") == ["open-1"]
    assert await offered("chat", "tester", "--thread", "op") == ["open-1"]
    assert await offered("run", "") == ["parallel", "tester"]
    assert await offered("chat", "te") == ["tester"]
    assert await offered("schedule", "delete", "ni") == ["nightly"]
    with_factory = ("status", "-n", namespace, "--client")
    assert await offered(*with_factory, FACTORY, "op") == ["open-1"]
    nothing = await completed("wakeful", *with_factory, "nothing:connect", "op", address=address)
    assert nothing == Ran(0, "\n", "")
