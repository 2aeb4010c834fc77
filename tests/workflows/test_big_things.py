"""Too much of anything is cut or refused where it enters, in words, and never leaves a run stuck."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from tests.support.waiting import until_refused, until_status
from wakeful import ConfigurationError, RunStatus
from wakeful.client.client import Client
from wakeful.contract.errors import CallerError
from wakeful.storage import data_converter


async def test_a_huge_tool_result_is_cut_with_a_note(usual_client: Client, thread_id: str) -> None:
    await usual_client.run("tester", "flood", thread_id=thread_id)
    (result,) = [message.text for message in await usual_client.transcript(thread_id) if message.tool_call_id]
    assert len(result) < 300_000
    assert result.endswith("[cut: the result has 3,000,065 bytes, and its first 255,998 are shown]")


async def test_the_client_rejects_a_huge_message_and_a_huge_decision(usual_client: Client, thread_id: str) -> None:
    too_large = "at most 1,000,000 are accepted: store large content where a tool can read it"
    with pytest.raises(CallerError, match=too_large):
        await usual_client.send(thread_id, "x" * 1_000_001, agent_id="tester")
    with pytest.raises(CallerError, match=too_large):
        await usual_client.submit(thread_id, "x" * 1_000_001)
    with pytest.raises(CallerError, match="at most 256,000 are accepted"):
        await usual_client.decide(thread_id, "1-1", "resume", result="x" * 256_001)


async def test_a_huge_signal_from_any_client_is_refused_and_harms_nothing(usual_client: Client, thread_id: str) -> None:
    client = usual_client
    await client.start("tester", "approve", thread_id=thread_id)
    view = await until_status(client, thread_id, RunStatus.WAITING)
    await client.handle(thread_id).signal("submit", {"input": "x" * 1_000_001})
    assert "at most 1,000,000 are accepted" in (await until_refused(client, thread_id)).refusals[0].reason
    await client.decide(thread_id, view.pending[0].pending.id, "resume")
    assert (await client.result(thread_id)).status_reason == "natural"


def test_large_payloads_can_be_kept_outside_history(tmp_path: Path) -> None:
    """A whole runtime with the payload store switched on, and a cold worker that reads the thread back from it."""
    program = ROOT / "tests" / "support" / "stored_thread.py"
    env = {**os.environ, "WAKEFUL_PAYLOAD_STORE": f"dir:{tmp_path}/store"}
    ran = subprocess.run([sys.executable, str(program)], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "natural 200000", ran.stderr
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


@pytest.mark.parametrize("place", ["ftp://x", "dir:", "s3://"])
async def test_an_unknown_place_for_payloads_is_named(place: str) -> None:
    with pytest.raises(ConfigurationError, match="write it as dir:/path or s3://bucket"):
        await data_converter({"WAKEFUL_PAYLOAD_STORE": place})
