"""`wakeful doctor`: what it prints, how it exits, and what it costs."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.conftest import worker_settings
from tests.support.processes import ROOT, WAKEFUL, wakeful
from wakeful import Agent, Registry, ScriptedModel, say
from wakeful.cli.commands.doctor import with_cluster_options
from wakeful.cli.options import Cluster
from wakeful.cli.terminal.doctor_lines import report_lines
from wakeful.doctor.report import SetupCheck, SetupReport, error, skipped, warning
from wakeful.doctor.version_checks import fits
from wakeful.worker import running_worker

IMPORTS = "import temporalio.worker, pydantic, httpx, opentelemetry.sdk.trace"
CPU_OF_IMPORTS = 4
"""The CPU that the command may take, as a multiple of what these imports take: the same work takes twice as many
seconds on a busy machine."""
REGISTRY = Registry(agents=[Agent(id="a")], models={"default": ScriptedModel([say("hello")])})


def of(client: TemporalClient) -> tuple[str, ...]:
    return ("--address", client.service_client.config.target_host, "--namespace", client.namespace)


async def test_a_problem_is_shown_with_a_command_that_reaches_the_same_cluster(bare: TemporalClient) -> None:
    ran = await wakeful("doctor", *of(bare))
    assert (ran.code, ran.err) in ((1, ""), (3, ""))  # another test may have broken the namespace further
    lines = ran.out.splitlines()
    assert "! namespace" in lines
    address = bare.service_client.config.target_host
    flat = " ".join(ran.out.split())
    assert f"temporal operator namespace update -n {bare.namespace} --retention 72h --address {address}`" in flat
    assert f"wakeful worker --address {address} --namespace {bare.namespace} --app module:registry`" in flat
    assert lines[-1].endswith("not made")


async def test_for_programs_the_report_is_one_json_object(bare: TemporalClient) -> None:
    ran = await wakeful("doctor", "--json", *of(bare))
    report = json.loads(ran.out)
    [namespace] = [check for check in report["checks"] if check["name"] == "namespace"]
    [problem] = namespace["problems"]
    assert (report["is_healthy"], namespace["status"], problem["level"]) == (False, "warning", "warning")
    assert problem["about"] == [bare.namespace]


async def test_a_server_that_cannot_be_reached_exits_with_1_and_what_needs_no_server_is_checked() -> None:
    ran = await wakeful("doctor", "--address", "127.0.0.1:1")
    assert ran.code == 1
    assert ran.out.startswith("✗ server\n    Cannot reach Temporal at 127.0.0.1:1")
    assert "\n✓ versions" in ran.out


def measured(*command: str | Path) -> tuple[int, str, float]:
    """Run the command, and return its exit code, its output and its CPU seconds."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, out, used.ru_utime + used.ru_stime


async def test_a_healthy_installation_is_reported_with_little_cpu(mended: TemporalClient) -> None:
    async with running_worker(mended, REGISTRY, worker_settings(task_queue="healthy")):
        code, out, cpu = await asyncio.to_thread(measured, WAKEFUL, "doctor", *of(mended), "--task-queue", "healthy")
        _, _, imports = await asyncio.to_thread(measured, sys.executable, "-c", IMPORTS)
    assert (code, out.splitlines()[-1]) == (0, "healthy: 13 checks, 2 not made"), out
    assert cpu < CPU_OF_IMPORTS * imports


async def test_20_a_package_that_does_not_fit_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "temporalio-1.20.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: temporalio\nVersion: 1.20.0\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, WAKEFUL, "doctor", "--address", "127.0.0.1:1", "--json"),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 1
    [problem] = next(check for check in json.loads(out)["checks"] if check["name"] == "versions")["problems"]
    assert problem["what"].startswith("Package temporalio is installed as 1.20.0, and Wakeful needs <2,>=1.35")
    assert problem["next"].startswith("`pip install 'temporalio<2,>=1.35'`")


@pytest.mark.parametrize(
    ("found", "limits", "expected"),
    [
        ("1.35.0", ">=1.35,<2", True),
        ("1.34.9", ">=1.35,<2", False),
        ("2.0.0rc1", ">=1.35,<2", False),
        ("3.0.52", ">=3.0.50,<4", True),
        ("1.4", "!=1.4", False),
        ("1.4", ">1.4", False),
        ("1.4.0", "==1.4,<=1.4", True),
        ("unknown", "", True),
    ],
)
def test_versions_are_compared_by_their_numbers(found: str, limits: str, expected: bool) -> None:
    assert fits(found, limits) is expected


REPORT = SetupReport(
    checks=(
        SetupCheck(name="server", problems=(error("It is gone.", "Start it: `wakeful dev`."),)),
        skipped("clock", "no server"),
        skipped("workers", "no server"),
        SetupCheck(name="runs", problems=(warning("One is slow.", "`wakeful why t1` explains it."),)),
        SetupCheck(name="versions", summary="fine"),
    )
)


def test_checks_that_were_skipped_for_one_reason_share_a_line() -> None:
    assert list(report_lines(REPORT)) == [
        "✗ server",
        "    It is gone.",
        "    → Start it: `wakeful dev`.",
        "· clock, workers  not checked: no server",
        "! runs",
        "    One is slow.",
        "    → `wakeful why t1` explains it.",
        "✓ versions  fine",
        "",
        "1 problem and 1 warning in 3 checks, 2 not made",
    ]
    assert (REPORT.exit_code, SetupReport(checks=REPORT.checks[1:]).exit_code) == (1, 3)


def test_commands_are_completed_with_the_options_of_the_cluster_except_those_that_start_one() -> None:
    completed = with_cluster_options(REPORT, Cluster(address="h:1", namespace="n"))
    assert [problem.next for problem in completed.problems] == [
        "Start it: `wakeful dev`.",
        "`wakeful why --address h:1 --namespace n t1` explains it.",
    ]
