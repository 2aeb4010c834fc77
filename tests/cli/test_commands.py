"""The `wakeful` command as a person and as a program use it, on the real server."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from typer.testing import CliRunner

from tests.support.app import registry
from tests.support.processes import ROOT, dev_process, running, wakeful
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import RunStatus
from wakeful.cli.app import COMMANDS, app, load_command
from wakeful.cli.commands.demo import print_end
from wakeful.cli.serving import registry_of
from wakeful.cli.terminal import outage_notice
from wakeful.client.client import Client
from wakeful.contract.errors import ConfigurationError, WakefulError
from wakeful.contract.runs import NaturalEnd, RunResult

ALL = [
    *("demo", "dev", "worker", "a2a", "run", "chat", "send", "queue", "edit", "withdraw"),
    *("inbox", "approve", "deny", "decide", "decisions", "permissions", "revoke", "status", "show", "watch"),
    *("tree", "why", "fork", "rewind", "diff", "schedule", "cancel", "close", "delete", "undelivered", "replay"),
]


@pytest.fixture
def address(temporal: TemporalClient) -> str:
    return temporal.service_client.config.target_host


async def test_run_prints_the_answer_on_stdout_and_what_happens_on_stderr(
    client: Client, address: str, thread_id: str
) -> None:
    ran = await wakeful("run", "tester", "add", "--thread", thread_id, address=address)
    assert (ran.code, ran.out) == (0, "the sum is 5\n")
    assert ran.err.splitlines() == [
        f"thread {thread_id}",
        "→ add(a=2, b=3)",
        "✓ add: 5",
        "  the sum is 5",
        "■ natural",
    ]


async def test_run_without_waiting_prints_the_thread_and_how_to_follow_it(
    temporal: TemporalClient, address: str, thread_id: str
) -> None:
    """No worker takes the run: the command would wait for ever."""
    command = ("run", "tester", "hi", "--no-wait", "--task-queue", thread_id)
    ran = await wakeful(*command, "--thread", thread_id, address=address)
    assert (ran.code, ran.out, ran.err) == (0, f"{thread_id}\n", f"follow it:  wakeful watch {thread_id}\n")
    printed = await wakeful(*command, "--thread", f"{thread_id}-2", "--json", address=address)
    assert (printed.code, json.loads(printed.out)) == (0, {"thread_id": f"{thread_id}-2"}), printed.err
    for started in (thread_id, f"{thread_id}-2"):
        await temporal.get_workflow_handle(started).terminate()


async def test_ctrl_c_stops_following_a_run_which_continues(client: Client, address: str, thread_id: str) -> None:
    command = ("run", "tester", "approve", "--thread", thread_id)
    async with (
        running(*command, address=address, errors=asyncio.subprocess.PIPE) as program,
        asyncio.timeout(BOUND_SECONDS),
    ):
        assert program.stderr is not None
        while b"deny:" not in await program.stderr.readline():
            pass
        program.send_signal(signal.SIGINT)
        out, err = await program.communicate()
    assert (program.returncode, out, err.decode()) == (130, b"", f"the run continues:  wakeful watch {thread_id}\n")
    await client.decide(thread_id, "1-1", "resume", result=True)
    assert (await client.result(thread_id)).status_reason == "natural"


@pytest.mark.parametrize(
    ("thread_id", "says"),
    [
        ("t" * 201, "has 201 bytes: use at most 200"),
        ("t\udcff", "wakeful: 't\\udcff' is not valid text: write it in UTF-8"),
    ],
)
async def test_a_thread_id_that_cannot_be_is_refused_in_one_line(address: str, thread_id: str, says: str) -> None:
    command = ("send", thread_id, "hello", "--agent", "a") if thread_id.isascii() else ("status", thread_id)
    ran = await wakeful(*command, address=address)
    assert (ran.code, len(ran.err.splitlines())) == (1, 1)
    assert says in ran.err


async def test_run_prints_json_lines_for_programs(client: Client, address: str) -> None:
    ran = await wakeful("run", "tester", "hi", "--json", address=address)
    *events, result = [json.loads(line) for line in ran.out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (result["response"], result["status"]) == ("hello, hi", "done")


async def test_a_budget_goes_with_the_run(client: Client, address: str, thread_id: str) -> None:
    limits = ["--budget-tokens", "100000", "--budget-seconds", "600"]
    ran = await wakeful("run", "tester", "hi", "--thread", thread_id, *limits, address=address)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "hello, hi"), ran.err
    history = await client.handle(thread_id).fetch_history()
    (request,) = history.events[0].workflow_execution_started_event_attributes.input.payloads
    assert json.loads(request.data)["budget"] == {"tokens": 100_000, "seconds": 600.0}
    wrong = await wakeful("run", "tester", "hi", "--budget-turns", "-1", address=address)
    assert (wrong.code, "--budget-turns" in wrong.err) == (2, True)


async def test_a_cost_budget_that_could_not_limit_the_run_ends_it_with_the_reason(client: Client, address: str) -> None:
    ran = await wakeful("run", "tester", "hi", "--budget-cost", "1", address=address)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[-1] == (
        "wakeful: the run ended as error:the run has a cost budget, which cannot limit agent 'tester': these models "
        "have no price: 'default'; set prices in the registry, or limit tokens instead"
    )


async def test_tenant_user_and_metadata_go_with_the_run(client: Client, address: str, thread_id: str) -> None:
    owners = ["--tenant", "acme", "--user", "ann", "--metadata", "order=7", "--metadata", "note=a=b"]
    ran = await wakeful("run", "tester", "hi", "--thread", thread_id, *owners, address=address)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "hello, hi"), ran.err
    history = await client.handle(thread_id).fetch_history()
    (request,) = history.events[0].workflow_execution_started_event_attributes.input.payloads
    sent = json.loads(request.data)
    assert (sent["tenant"], sent["user"], sent["metadata"]) == ("acme", "ann", {"order": "7", "note": "a=b"})
    status = await wakeful("status", thread_id, address=address)
    assert {"tenant   acme", "user     ann"} <= {*status.out.splitlines()}
    wrong = await wakeful("send", thread_id, "hi", "--metadata", "order", address=address)
    assert (wrong.code, "'order' is not KEY=VALUE" in wrong.err) == (2, True)


async def test_a_run_that_does_not_end_well_exits_with_its_reason(client: Client, address: str) -> None:
    ran = await wakeful("run", "unknown", "hi", address=address)
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == (
        f"wakeful: the run ended as error:agent not found: 'unknown'; registered: {', '.join(sorted(registry.agents))}"
    )


@pytest.mark.parametrize(("on_error", "status"), [("fail", "FAILED"), ("complete", "COMPLETED")])
async def test_a_run_that_ends_in_an_error_closes_its_workflow_as_it_was_asked_to(
    client: Client, address: str, thread_id: str, on_error: str, status: str
) -> None:
    """B-024"""
    ran = await wakeful("run", "unknown", "hi", "--thread", thread_id, "--on-error", on_error, address=address)
    assert (ran.code, "the run ended as error:agent not found" in ran.err) == (1, True)
    described = (await client.handle(thread_id).describe()).status
    assert described is not None
    assert described.name == status


async def test_a_run_that_was_stopped_says_why(client: Client, address: str, thread_id: str) -> None:
    ran = await wakeful("run", "short", "for ever", "--thread", thread_id, address=address)
    reason = "stopped:max_rounds: 3 rounds of tool calls were made"
    assert (ran.code, ran.err.splitlines()[-1]) == (1, f"wakeful: the run ended as {reason}")
    status = await wakeful("status", thread_id, address=address)
    assert f"ended    {reason}" in status.out.splitlines()


async def test_a_suspended_run_is_shown_decided_and_read(client: Client, address: str, thread_id: str) -> None:
    ran = await wakeful("run", "tester", "approve", "--thread", thread_id, "--until-suspended", address=address)
    assert (ran.code, ran.out) == (0, "")
    assert "waits for a decision: May I launch?" in ran.err.splitlines()
    status = await wakeful("status", thread_id, address=address)
    assert f"  approve:  wakeful approve {thread_id}/1-1" in status.out.splitlines()
    answer = ["--result", '{"ok": true}', "--reason", "fine"]
    decided = await wakeful("decide", thread_id, "1-1", "resume", *answer, address=address)
    assert (decided.code, decided.out) == (0, f'approved  {thread_id}/1-1: approve(what="launch")\n')
    await client.result(thread_id)
    lines = (await wakeful("show", thread_id, address=address)).out.splitlines()
    assert re.fullmatch(r"tool 1-1 .* UTC  approved by .*@.* \(CLI\): fine", lines.pop(2))
    assert lines == [
        "user: approve",
        'assistant, step 1: → approve(what="launch")',
        'tool 1-1: {"did":"launch","said":{"ok":true},"reason":"fine"}',
        'assistant, step 2: approval gave {"did":"launch","said":{"ok":true},"reason":"fine"}',
    ]
    shown = json.loads((await wakeful("status", thread_id, "--json", address=address)).out)
    assert (shown["status"], shown["result"]["status_reason"]) == ("done", "natural")


async def test_messages_are_sent_to_a_thread_that_stays_open(client: Client, address: str, thread_id: str) -> None:
    refused = await wakeful("send", thread_id, "one", address=address)
    missing = f"thread {thread_id!r} is new: say which agent should answer (agent_id, or --agent)"
    assert refused.err == f"wakeful: {missing}\n"
    for text, options in (("one", ["--agent", "tester"]), ("two", ["--message-id", "m2"])):
        assert (await wakeful("send", thread_id, text, *options, address=address)).code == 0
    await until(client, thread_id, lambda view: view.status is RunStatus.DONE and view.runs == 2)
    ran = await wakeful("run", "tester", "three", "--thread", thread_id, "--again", address=address)
    idle = f"wakeful: thread {thread_id!r} is open (idle, waiting for a message)"
    assert (ran.code, ran.err) == (1, f"{idle}: send it a message with `wakeful send {thread_id} …`\n")
    shown = (await wakeful("show", thread_id, address=address)).out.splitlines()
    assert shown == ["user: one", "assistant, step 1: hello, one", "user: two", "assistant, step 2: hello, two"]
    await client.handle(thread_id).cancel()


async def test_cancel_waits_until_the_run_has_stopped(client: Client, address: str, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    ran = await wakeful("cancel", thread_id, "--reason", "enough", address=address)
    assert (ran.code, ran.out) == (0, f"thread {thread_id}: cancelled: enough\n")


async def test_cancel_returns_although_the_thread_stays_open(client: Client, address: str, thread_id: str) -> None:
    await client.send(thread_id, "approve", agent_id="tester")
    await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
    ran = await wakeful("cancel", thread_id, "--reason", "enough", address=address)
    assert (ran.code, ran.out) == (0, f"thread {thread_id}: cancelled: enough\n"), ran.err
    status = await wakeful("status", thread_id, address=address)
    assert "ended    cancelled: enough" in status.out.splitlines()
    again = await wakeful("cancel", thread_id, address=address)
    nothing = f"wakeful: nothing to cancel on thread {thread_id!r}: no run is under way\n"
    assert (again.code, again.err) == (1, nothing)
    await client.close(thread_id)


async def test_what_names_a_run_is_refused_for_another(client: Client, address: str, thread_id: str) -> None:
    """B-611"""
    await client.send(thread_id, "approve", agent_id="tester")
    view = await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
    ticket, newest = f"{thread_id}/1-1", view.identity.run_id
    because = f"it is for run 'r0', but the newest run of the thread is {newest!r}"
    for arguments in (
        ["cancel", thread_id],
        ["decide", thread_id, "1-1", "resume"],
        ["approve", ticket],
        ["deny", ticket],
    ):
        refused = await wakeful(*arguments, "--run", "r0", address=address)
        assert (refused.code, because in refused.err) == (1, True), refused.err
    approved = await wakeful("approve", ticket, "--run", newest, address=address)
    assert (approved.code, approved.out.split()[0]) == (0, "approved")
    without_thread = await wakeful("cancel", "--agent", "tester", "--run", newest, address=address)
    assert (without_thread.code, "name the thread of the run" in without_thread.err) == (2, True)
    nameless = await wakeful("decide", thread_id, "", "resume", address=address)
    assert nameless.err == "wakeful: CALL should have at least 1 character, not ''\n"
    await client.close(thread_id)


async def test_close_ends_a_thread_that_a_message_wakes_again(client: Client, address: str, thread_id: str) -> None:
    await client.send(thread_id, "approve", agent_id="tester")
    await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
    ran = await wakeful("close", thread_id, "--reason", "enough", address=address)
    assert (ran.code, ran.out) == (0, f"thread {thread_id}: closed\n"), ran.err
    described = await client.handle(thread_id).describe()
    assert described.status is WorkflowExecutionStatus.COMPLETED
    closed = await wakeful("close", thread_id, address=address)
    assert (closed.code, closed.out) == (1, "")
    assert (await wakeful("send", thread_id, "hi", address=address)).code == 0
    woken = await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    assert woken.doing == "idle, waiting for a message"
    sent = await wakeful("close", thread_id, "--no-wait", address=address)
    assert (sent.code, sent.out) == (0, f"thread {thread_id}: close sent\n")
    await client.result(thread_id)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["status", "nowhere"], "wakeful: no thread 'nowhere' in this namespace"),
        (["decide", "nowhere", "c", "resume"], "wakeful: no thread 'nowhere' in this namespace"),
        (["cancel", "nowhere"], "wakeful: no thread 'nowhere' in this namespace"),
        (["close", "nowhere"], "wakeful: no thread 'nowhere' in this namespace"),
        (["run", "tester", ""], "wakeful: input is empty: give a text or at least one message"),
        (["approve", "nowhere"], "wakeful: nowhere: 'nowhere' is not a ticket: write THREAD/CALL, as `wakeful inbox`"),
        (["decide", "t", "c", "resume", "--result", "{oops"], "wakeful: --result is not JSON: "),
        (["approve", "t/1-1", "--arguments", "{n:1}"], "wakeful: --arguments must be a JSON object, with names and"),
        (["approve", "t/1-1", "--arguments", "[1]"], "wakeful: --arguments must be a JSON object, with names and"),
        (["schedule", "create", "tester", "hi"], "wakeful: say when it fires: with --cron '0 9 * * MON-FRI', or --eve"),
        (["schedule", "create", "tester", "hi", "--every", "2 h"], "wakeful: --every '2 h' is not a length of time: "),
        (["schedule", "delete", "nothing"], "wakeful: no schedule 'nothing' in this namespace"),
        (["worker"], "wakeful: a worker needs your agents: name your registry with --app module:registry or --app"),
        (["worker", "--deployment", "agents"], "wakeful: --deployment needs --build-id: every version of your code"),
        (["worker", "--app", "nothing"], "wakeful: --app 'nothing' must be written as module:registry or path/to"),
        (
            ["worker", "--app", "examples/shop.py"],
            "wakeful: --app 'examples/shop.py' must be written as module:registry",
        ),
        (["worker", "--app", "nope.py:registry"], "wakeful: --app 'nope.py:registry': the file 'nope.py' does not"),
        (["worker", "--app", "nothing:registry"], "wakeful: --app 'nothing:registry': there is no module 'nothing'"),
        (["worker", "--app", "json:loads"], "wakeful: --app 'json:loads': 'loads' is a function; it must be a"),
    ],
)
async def test_a_mistake_is_one_clear_line_on_stderr(client: Client, address: str, args: list[str], says: str) -> None:
    """B-674: a worker without agents is one."""
    ran = await wakeful(*args, address=address)
    assert ran.code == 1
    (line,) = ran.err.splitlines()
    assert line.startswith(says)
    assert ran.out == ""


@pytest.mark.parametrize(
    "args",
    [
        *(
            ["run", "tester", "hi"],
            ["worker", "--app", "tests.support.app:registry"],
            ["status", "t"],
            ["approve", "t/1-1"],
            ["why", "t"],
            ["send", "t", "hi"],
        ),
        *(["inbox"], ["watch", "t"]),
    ],
)
async def test_a_missing_namespace_is_one_clear_line(address: str, args: list[str]) -> None:
    ran = await wakeful(*args, "-n", "nope", address=address)
    says = f"wakeful: namespace 'nope' does not exist at {address}. Name another with --namespace or"
    assert (ran.code, ran.out) == (1, "")
    (line,) = ran.err.splitlines()
    assert line.startswith(says)
    assert line.endswith(f"`temporal operator namespace create -n nope --address {address}`.")


def test_a_syntax_error_of_the_app_is_one_line_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "app_with_a_syntax_error.py"
    file.write_text("registry = 1\nif\n")
    with pytest.raises(ConfigurationError) as raised:
        registry_of(f"{file}:registry", None)
    assert str(raised.value) == f"--app '{file}:registry': syntax error in {file}, line 2: invalid syntax"


async def test_a_thread_whose_run_failed_says_why(client: Client, address: str, thread_id: str) -> None:
    await wakeful("send", thread_id, "hello", "--agent", "unknown", address=address)
    await until(client, thread_id, lambda view: view.result is not None)
    status = await wakeful("status", thread_id, address=address)
    assert any(
        line.startswith("ended    error:agent not found: 'unknown'; registered: ") for line in status.out.splitlines()
    )


async def test_a_port_that_is_taken_is_one_clear_line(address: str) -> None:
    port = address.rpartition(":")[2]
    ran = await wakeful("dev", "--port", port, "--ui-port", "0")
    assert ran.code == 1
    assert ran.err.startswith(f"wakeful: port {port} is in use, perhaps by another `wakeful dev`: stop that one")


async def test_a_busy_thread_is_one_clear_line(client: Client, address: str, thread_id: str) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
    ran = await wakeful("run", "tester", "hi", "--thread", thread_id, address=address)
    is_open = f"thread {thread_id!r} is open (waiting for a decision on approve)"
    assert (ran.code, ran.err) == (1, f"wakeful: {is_open}: send it a message with `wakeful send {thread_id} …`\n")
    await client.cancel(thread_id)


async def test_an_existing_thread_is_started_over_only_with_again(client: Client, address: str, thread_id: str) -> None:
    await client.run("tester", "one", thread_id=thread_id)
    ran = await wakeful("run", "tester", "two", "--thread", thread_id, address=address)
    assert (ran.code, ran.out, ran.err) == (
        1,
        "",
        f"wakeful: thread {thread_id!r} exists: continue it with `wakeful send {thread_id} …`, or start over with"
        " `--again`\n",
    )
    again = await wakeful("run", "tester", "two", "--thread", thread_id, "--again", address=address)
    assert (again.code, again.out.splitlines()[-1]) == (0, "hello, two"), again.err
    assert [message.text for message in await client.transcript(thread_id)] == ["two", "hello, two"]


async def test_an_unreachable_server_is_one_clear_line() -> None:
    ran = await wakeful("status", "t", address="127.0.0.1:1")
    assert ran.code == 1
    (line,) = ran.err.splitlines()
    assert line.startswith("wakeful: cannot reach Temporal at 127.0.0.1:1 (namespace 'default'). Start one with")


async def test_an_address_without_a_port_is_one_clear_line() -> None:
    ran = await wakeful("status", "t", address="localhost")
    (line,) = ran.err.splitlines()
    assert (ran.code, line.endswith("the port is missing. Write HOST:PORT, for example localhost:7233.")) == (1, True)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("notes.txt", "'{path}' is not a database file: name another, or one that does not exist"),
        ("empty.db", "'{path}' is not a database file: name another, or one that does not exist"),
        ("notes.txt/new.db", "the database '{path}' cannot be used: '{path.parent}' is not a directory"),
        ("", "the database '{path}' cannot be used: Is a directory"),
    ],
)
async def test_a_database_that_cannot_be_used_is_one_clear_line(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "notes.txt").write_text("milk")
    (tmp_path / "empty.db").touch()
    path = tmp_path / name
    ran = await wakeful("dev", "--db", str(path), "--port", "0", "--ui-port", "0")
    assert (ran.code, ran.err) == (1, f"wakeful: {says.format(path=path)}\n")


async def test_waiting_for_the_end_says_once_that_no_worker_answers(
    temporal: TemporalClient, thread_id: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `cancel` and `close` wait."""
    monkeypatch.setattr(outage_notice, "SILENCE_SECONDS", 0.2)
    monkeypatch.setattr(outage_notice, "MISSING_SECONDS", 0.1)
    client = Client(temporal, task_queue=thread_id)
    await client.start("tester", "hi", thread_id=thread_id)
    waiting = asyncio.create_task(outage_notice.wait_for_result(client, thread_id))
    printed = ""
    async with asyncio.timeout(BOUND_SECONDS):
        while not printed:
            await asyncio.sleep(0.05)
            printed = capsys.readouterr().err
    assert printed == f"! no worker answers on task queue {thread_id!r}; waiting\n"
    await client.handle(thread_id).terminate()
    with pytest.raises(WakefulError, match="terminated"):
        await waiting
    assert capsys.readouterr().err == ""


def test_the_help_lists_every_command() -> None:
    ran = CliRunner().invoke(app, ["--help"], prog_name="wakeful")
    listed = [line.split()[0] for line in ran.output.splitlines() if line.startswith("  ") and line.split()[0] in ALL]
    assert (ran.exit_code, ran.stderr, listed) == (0, "", ALL)


@pytest.mark.parametrize("command", ALL)
def test_every_command_has_help(command: str) -> None:
    ran = CliRunner().invoke(app, [command, "--help"], prog_name="wakeful")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert f"Usage: wakeful {command}" in ran.output
    assert f"\n  {COMMANDS[command]}\n" in ran.output


def test_every_file_of_a_command_is_in_the_table() -> None:
    folder = ROOT / "wakeful" / "cli" / "commands"
    assert sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__") == sorted(COMMANDS)
    assert [load_command(name).name for name in COMMANDS] == [*COMMANDS]


def test_every_command_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [name for name in sorted(COMMANDS) if f"`wakeful {name}" not in page] == []


async def test_the_demo_shows_a_whole_run_and_exits_cleanly() -> None:
    ran = await wakeful("demo")
    assert ran.code == 0, ran.err
    expected = ["look_up_order(", "Refund 249.00 EUR for order 1042?", "Assistant: Done: ", "wakeful demo --keep"]
    assert [words for words in expected if words not in ran.out] == []
    assert "http://" not in ran.out  # the server has stopped


def test_a_demo_that_is_kept_shows_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    result = RunResult(
        thread_id="t", run_id="r", agent_id="a", status_reason="natural", termination=NaturalEnd(), response="Done"
    )
    print_end(result, "http://127.0.0.1:8233/t", keep=True)
    assert "In Temporal's web UI: http://127.0.0.1:8233/t\nCtrl-C stops" in capsys.readouterr().out


async def test_dev_says_where_it_is_in_one_json_line_and_stops_on_ctrl_c(tmp_path: Path) -> None:
    async with dev_process("--app", "tests.support.app:registry", "--db", str(tmp_path / "wakeful.db")) as where:
        assert sorted(where) == ["address", "namespace", "task_queue", "ui"]
        ran = await wakeful("run", "tester", "add", address=where["address"])
        assert ran.out.splitlines()[-1] == "the sum is 5", ran.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "assistant 'I want my money back for order 1042'"),
        (["--app", "tests.support.app:registry"], "clumsy 'hello'"),
    ],
)
async def test_dev_suggests_words_that_its_agents_understand(options: list[str], says: str) -> None:
    command = ("dev", "--port", "0", "--ui-port", "0", *options)
    async with running(*command) as program, asyncio.timeout(BOUND_SECONDS):
        assert program.stdout is not None
        while not (line := (await program.stdout.readline()).decode()).startswith("In another terminal:"):
            assert line, "it has ended"
        next_line = (await program.stdout.readline()).decode()
        program.send_signal(signal.SIGINT)
        await program.communicate()
    assert re.fullmatch(r"In another terminal:  export TEMPORAL_ADDRESS=127\.0\.0\.1:\d+\n", line)
    assert next_line.strip() == f"wakeful run {says}"


def test_worker_py_is_the_worker_program() -> None:
    ran = subprocess.run([sys.executable, "worker.py", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    assert "--app" in ran.stdout
