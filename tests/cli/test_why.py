"""`wakeful why`: one paragraph for people, one value for programs, and commands that can be typed as they stand."""

import json
import re
import shlex
from collections.abc import AsyncIterator

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.diagnoses import assert_parses
from tests.support.processes import ROOT, wakeful
from tests.support.stand_ins import Part, asking_call, delegate_call, stand, stand_ins, view_of
from tests.support.waiting import until_status
from wakeful.cli.commands.why import with_cluster_options
from wakeful.cli.options import Cluster
from wakeful.client.client import Client
from wakeful.client.diagnosis.causes import Cause, Diagnosis
from wakeful.contract.runs import RunStatus
from wakeful.contract.views import WaitingFor

SINCE = 1_700_000_000_000


@pytest.fixture
def address(temporal: TemporalClient) -> str:
    return temporal.service_client.config.target_host


@pytest.fixture
async def asking(temporal: TemporalClient, thread_id: str) -> AsyncIterator[str]:
    """A thread whose delegate waits for a decision, and asks for it with a character that moves the cursor."""
    child = f"{thread_id}/researcher-1"
    call = asking_call("pay", since=SINCE)
    assert call.ticket is not None
    suspension = call.ticket.suspension.model_copy(update={"message": "Pay\x1b[1A 5?"})
    call = call.model_copy(update={"ticket": call.ticket.model_copy(update={"suspension": suspension})})
    waiting = view_of(
        child, "researcher", RunStatus.WAITING, path=(thread_id,), calls=(call,), waiting_for=WaitingFor.DECISIONS
    )
    parent = view_of(thread_id, "support", calls=(delegate_call("researcher", child),))
    async with stand_ins(temporal, thread_id):
        part = Part(id=thread_id, view=parent, children=(Part(id=child, view=waiting),))
        root = await stand(temporal, thread_id, part)
        yield thread_id
        await temporal.get_workflow_handle(child).terminate()
        await root.terminate()


async def test_a_person_reads_one_paragraph_with_the_sub_agent_s_cause_and_the_command(
    asking: str, address: str
) -> None:
    ran = await wakeful("why", asking, address=address)
    assert (ran.code, ran.err) == (0, "")
    child = f"{asking}/researcher-1"
    (paragraph,) = ran.out.splitlines()
    assert paragraph.startswith(
        f"{asking} is at step 1 and waits for its sub-agent {child}, which is at step 1 and has been waiting for a "
        "decision on pay for "
    )
    assert "(since 2023-11-14 22:13 UTC)" in paragraph
    assert "\x1b" not in paragraph
    assert f"`wakeful approve {child}/call_2_1` resumes it" in paragraph


async def test_a_program_reads_the_cause_the_path_and_the_facts(asking: str, address: str) -> None:
    ran = await wakeful("why", asking, "--json", address=address)
    printed = json.loads(ran.out)
    child = f"{asking}/researcher-1"
    assert (printed["cause"], printed["since"], printed["path"]) == ("decision", SINCE, [asking, child])
    assert printed["commands"] == [f"wakeful approve {child}/call_2_1", f"wakeful deny {child}/call_2_1"]
    assert any("polled by" in fact for fact in printed["facts"])
    assert Diagnosis.model_validate(printed).cause is Cause.DECISION


async def test_an_unknown_thread_is_an_error(temporal: TemporalClient, address: str) -> None:
    ran = await wakeful("why", "unknown", address=address)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "wakeful: no thread 'unknown' in this namespace\n"
    del temporal


async def test_the_suggested_command_solves_the_problem(usual_client: Client, thread_id: str, address: str) -> None:
    """Typed as it stands, with the cluster as it was named for the question."""
    await usual_client.start("tester", "approve", thread_id=thread_id)
    await until_status(usual_client, thread_id, RunStatus.WAITING)
    asked = await wakeful("why", thread_id, "--address", address, "--namespace", "default")
    command = re.findall(r"`(wakeful [^`]*)`", asked.out)[0]
    assert shlex.split(command)[:6] == ["wakeful", "approve", "--address", address, "--namespace", "default"]
    assert_parses(command)
    ran = await wakeful(*shlex.split(command)[1:])
    assert ran.code == 0
    assert (await usual_client.result(thread_id)).status_reason == "natural"
    ended = await wakeful("why", thread_id, address=address)
    assert f"{thread_id} came to its natural end" in ended.out
    shown = await wakeful(*shlex.split(re.findall(r"`(wakeful [^`]*)`", ended.out)[0])[1:], address=address)
    assert "approval gave" in shown.out


def test_temporal_s_commands_take_the_cluster_options_at_their_end() -> None:
    found = Diagnosis(
        thread_id="t",
        cause=Cause.PAUSED,
        doing="t waits.",
        why="",
        next="`temporal activity unpause --activity-id a` does, `wakeful cancel -- -t` stops it.",
        at=0,
        commands=("temporal activity unpause --activity-id a", "wakeful cancel -- -t"),
    )
    assert with_cluster_options(found, Cluster(address="h:1", client_factory="m:f")).next == (
        "`temporal activity unpause --activity-id a --address h:1` does, "
        "`wakeful cancel --address h:1 --client m:f -- -t` stops it."
    )
    assert with_cluster_options(found, Cluster()) == found


def test_every_cause_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "why.md").read_text()
    assert [cause.value for cause in Cause if f"| `{cause.value}` |" not in page] == []
