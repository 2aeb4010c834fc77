"""What models, tools, users and servers write is text on every terminal: it controls nothing, and begins no line."""

import asyncio
import contextlib
import io
import json
import re
import shlex
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.hostile_app import HOSTILE
from tests.support.processes import Program, wakeful, worker_process
from tests.support.terminal import terminal
from tests.support.waiting import until, until_refused
from wakeful import RunStatus
from wakeful.cli.app import COMMANDS
from wakeful.cli.terminal import guarded_stream
from wakeful.cli.terminal.guarded_stream import guard_streams, let_colours_pass, own
from wakeful.client.client import Client

QUEUE = "hostile"
APP = "tests.support.hostile_app:registry"
MEANINGS = {
    "HOSTILE": HOSTILE,
    "APP": APP,
    "QUEUE": QUEUE,
    "SERVER": f"{sys.executable} -m tests.support.hostile_app",
    "OPEN": "hostile-open",
    "CLOSED": "hostile-closed",
}

COMMAND_LINES = """
list --details --agent spawner
inbox --thread OPEN
status OPEN
status CLOSED
show OPEN
show OPEN --at 2
show CLOSED --json
watch CLOSED
watch CLOSED --json
tree OPEN --ids
why OPEN
queue OPEN
permissions OPEN
decisions --thread CLOSED
decisions --thread CLOSED --json
undelivered OPEN
diff OPEN CLOSED
replay OPEN
agents --app APP
doctor --app APP
mcp list --command SERVER
delete OPEN
send OPEN HOSTILE --message-id q2
edit OPEN HOSTILE x
withdraw OPEN q1 HOSTILE
revoke OPEN HOSTILE
approve OPEN/HOSTILE
decide OPEN HOSTILE cancel
deny OPEN/4-1 --reason HOSTILE
run talker HOSTILE --task-queue QUEUE
chat talker --thread hostile-chat --task-queue QUEUE
schedule create talker HOSTILE --every 1d --id hostile --paused
schedule list
schedule delete hostile
fork CLOSED --at 1 --as hostile-fork --detach
rewind CLOSED --to 1 --yes
cancel OPEN --reason HOSTILE
close OPEN
"""

PRINT_LOGS = {"worker", "dev", "demo", "a2a"}
"""Commands that print what they serve, and logs. The test scans those of a worker."""

PRINT_ANSWERS = {"run", "chat"}
"""Commands whose standard output is the answer, with its lines."""

COLOURS = re.compile(r"\x1b\[(0|1|2|3[1-6])m")
CURSOR = re.compile(r"\x1b\[(\d+[FD]|[JK])")
DECEIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2060-\u2069]|a\u200db")


def deceptions(output: str, *, is_answer: bool = False) -> Iterator[str]:
    """What controls a terminal in an output, and the lines in it that others have written."""
    shown = COLOURS.sub("", output)
    yield from (repr(found[0]) for found in DECEIVES.finditer(shown))
    if not is_answer:
        yield from (line for line in shown.split("\n") if line.startswith("FAKE"))


@contextlib.asynccontextmanager
async def hostile_threads(temporal: TemporalClient, journal: Path) -> AsyncIterator[Program]:
    """Two threads that are full of hostile content; one of them waits for decisions. Yields their worker."""
    address = temporal.service_client.config.target_host
    async with (
        worker_process(address, QUEUE, journal, app=APP, errors=asyncio.subprocess.PIPE) as worker,
        Client(temporal, task_queue=QUEUE) as client,
    ):
        for thread, agent in (("hostile-open", "spawner"), ("hostile-closed", "payer")):
            await client.send(thread, f"INPUT{HOSTILE}", agent_id=agent, metadata={"k": HOSTILE})
        await until(client, "hostile-open", lambda view: bool(view.pending))
        await client.send("hostile-open", f"QUEUED{HOSTILE}", message_id="q1")
        await client.handle("hostile-open").signal("submit", {f"bad{HOSTILE}": 1})
        await until_refused(client, "hostile-open")
        await until(client, "hostile-closed", lambda view: bool(view.pending))
        await client.decide("hostile-closed", "3-1", "resume", result=True, actor=HOSTILE, reason=HOSTILE)
        await until(client, "hostile-closed", lambda view: view.status is RunStatus.DONE)
        await client.close("hostile-closed")
        yield worker


async def test_no_command_prints_what_controls_a_terminal(
    temporal: TemporalClient, address: str, tmp_path: Path
) -> None:
    printed: dict[str, list[str]] = {}
    async with hostile_threads(temporal, tmp_path / "journal") as worker:
        for line in COMMAND_LINES.strip().splitlines():
            words = [re.sub("[A-Z]{3,}", lambda found: MEANINGS[found[0]], word) for word in shlex.split(line)]
            ran = await wakeful(*words, address=address, stdin="hello\n", FORCE_COLOR="1")
            is_answer = words[0] in PRINT_ANSWERS
            printed[line] = [*deceptions(ran.out, is_answer=is_answer), *deceptions(ran.err)]
            assert ran.code != 2, f"{line}: {ran.err}"  # the options are wrong
            if "--json" in words:  # a program reads what was written
                read = [json.loads(each) for each in ran.out.split("\n") if each]
                assert json.dumps(HOSTILE)[1:-1] in json.dumps(read)
        async with terminal("watch", "hostile-open", TEMPORAL_ADDRESS=address) as shown:
            await shown.ended()
            await shown.until("FAKE approved")
            raw = CURSOR.sub("", b"".join(data for _, data in shown.raw).decode()).replace("\r\n", "\n")
            printed["watch on a terminal"] = list(deceptions(raw, is_answer=True))
        worker.terminate()
        assert worker.stderr is not None
        log = (await worker.stderr.read()).decode()
        printed["worker"] = list(deceptions(log))
    assert "tool raised" in log
    assert {line: found for line, found in printed.items() if found} == {}
    assert {line.split()[0] for line in printed} | PRINT_LOGS == set(COMMANDS)


def guarded(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Guard the streams, and return what is written to them."""
    written = io.BytesIO()
    monkeypatch.setattr(guarded_stream._Mark, "begin", guarded_stream.CSI)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(written, encoding="utf-8", write_through=True))
    guard_streams()
    return written


def test_control_sequences_pass_only_if_they_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = guarded(monkeypatch)
    print(f"{own(chr(27) + '[31m')}red \x1b[31m not{own(chr(27) + '[0m')}")
    assert stdout.getvalue().decode() == "\x1b[31mred \\u001b[31m not\x1b[0m\n"


def test_an_app_may_print_colours_and_nothing_else_that_controls_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = guarded(monkeypatch)
    let_colours_pass()
    sys.stderr.writelines(["\x1b[1;31mbold\x1b[0m ", "\x1b[2J\x1b]0;x\x07\n"])
    assert stdout.getvalue().decode() == "\x1b[1;31mbold\x1b[0m \\u001b[2J\\u001b]0;x\\u0007\n"


@pytest.mark.parametrize(
    "text",
    ["Grüße, 日本語\tمرحبا", "👩\u200d💻", "می\u200cخواهم", "a\u00a0b\u3000c", "x\n\ny\n"],  # noqa: RUF001
)
def test_text_of_any_language_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    stdout = guarded(monkeypatch)
    print(text, end="")
    assert stdout.getvalue().decode() == text


def test_json_stays_json_and_means_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = guarded(monkeypatch)
    value = {"text": f"{HOSTILE}\U000e0041"}
    print(json.dumps(value, ensure_ascii=False))
    assert json.loads(stdout.getvalue()) == value
    assert list(deceptions(stdout.getvalue().decode())) == []
