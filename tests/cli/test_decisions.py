"""`wakeful decisions`, and how `show`, `status`, `tree` and `watch` show who decided what."""

import json
import re

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.encrypted import connect
from tests.support.namespaces import empty_namespace
from tests.support.processes import wakeful
from tests.support.waiting import until_status
from wakeful import DecisionRecord, RunStatus
from wakeful.cli.terminal.decision_lines import decision_lines, decision_text
from wakeful.client.client import Client
from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.worker import running_worker

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


@pytest.fixture
def address(temporal: TemporalClient) -> str:
    return temporal.service_client.config.target_host


async def test_who_approved_a_call_is_in_every_view_of_the_thread(client: Client, address: str, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id, user="zoe")
    await until_status(client, thread_id, RunStatus.WAITING)
    answer = ("--reason", "she called", "--actor", "ann@desk", "--arguments", '{"what": "land"}')
    approved = await wakeful("approve", f"{thread_id}/1-1", *answer, address=address)
    assert approved.code == 0, approved.err
    await client.result(thread_id)
    said = r'approved by ann@desk \(CLI\), with other arguments: {"what":"land"}: she called'

    listed = await wakeful("decisions", "--thread", thread_id, address=address)
    head, row, about = listed.out.splitlines()
    assert head.split() == ["TIME", "TICKET", "DECISION"]
    assert re.fullmatch(rf"{TIME}  {thread_id}/1-1  {said}", row)
    assert about == '      tester for zoe: approve(what="launch")'

    watched = await wakeful("watch", thread_id, address=address)
    assert re.search(rf"^✓ approve {said}$", watched.out, re.MULTILINE)
    shown = await wakeful("show", thread_id, address=address)
    assert re.search(rf"^tool 1-1 {TIME}  {said}\ntool 1-1: ", shown.out, re.MULTILINE)
    status = await wakeful("status", thread_id, address=address)
    assert re.search(rf"^decided  1-1  approve  {TIME}  {said}$", status.out, re.MULTILINE)
    tree = await wakeful("tree", thread_id, address=address)
    assert re.search(rf"^ +approve \(1-1\) {TIME}  {said}$", tree.out, re.MULTILINE)

    printed = await wakeful("decisions", "--thread", thread_id, "--since", "1h", "--json", address=address)
    (record,) = map(DecisionRecord.model_validate_json, printed.out.splitlines())
    assert record.decision is not None
    assert (record.arguments, record.decision.arguments) == ({"what": "launch"}, {"what": "land"})
    assert json.loads(printed.out)["decision"]["channel"] == "cli"
    none = await wakeful("decisions", "--thread", thread_id, "--user", "eve", address=address)
    assert (none.code, none.out) == (0, "no decisions\n")


async def test_an_audit_that_leaves_a_thread_out_fails(temporal: TemporalClient, address: str) -> None:
    own = await empty_namespace(temporal)
    encrypted = await connect(address, own.namespace)
    async with running_worker(encrypted, registry), Client(encrypted) as client:
        await client.run("tester", "hi", thread_id="secret")
    audit = await wakeful("decisions", "--namespace", own.namespace, address=address)
    assert (audit.code, audit.out) == (1, "no decisions\n")
    assert re.fullmatch(r"wakeful: secret: .*cannot be decoded.*\n", audit.err)


def decision(**fields: object) -> AppliedDecision:
    return AppliedDecision.model_validate({"action": "resume", "at": 0} | fields)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (decision(actor="ann"), "approved by ann"),
        (decision(channel="signal"), "approved by an unknown sender (signal)"),
        (decision(action="cancel", actor="ann", channel="mcp", reason="no"), "denied by ann (MCP): no"),
        (
            decision(actor="ann", channel="cli", always=True, rule="pay(*)"),
            "approved by ann (CLI), and always from then on (pay(*))",
        ),
        (decision(channel="rule", rule="pay(*)"), "approved by rule pay(*)"),
        (
            decision(action="cancel", channel="deadline", reason="no decision within 5 s"),
            "denied by its deadline: no decision within 5 s",
        ),
        (decision(actor="\x1b[2Jann", reason="a\nb"), "approved by \\u001b[2Jann: a b"),
    ],
)
def test_a_decision_says_who_made_it_and_how(made: AppliedDecision, text: str) -> None:
    assert decision_text(made) == text


def test_decisions_are_listed_with_the_call_of_each() -> None:
    record = DecisionRecord(
        thread_id="t1", agent_id="clerk", call_id="1-1", tool_name="pay", arguments={"amount": 5}, decision=decision()
    )
    assert decision_lines([record]) == [
        "TIME                     TICKET  DECISION",
        "1970-01-01 00:00:00 UTC  t1/1-1  approved by an unknown sender",
        "      clerk: pay(amount=5)",
    ]
