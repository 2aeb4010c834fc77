"""`wakeful rewind`: it says what it would undo, asks, and does it."""

import json

import pytest

from tests.support.processes import wakeful
from tests.support.terminal import ENTER, terminal
from wakeful.cli.terminal.rewind_lines import SIDE_EFFECTS, plan_lines, rewound_lines
from wakeful.client.branching.reset_points import ResetPoint
from wakeful.client.branching.rewind import RewindPlan, Rewound
from wakeful.client.branching.steps import Step
from wakeful.client.client import Client


async def test_a_program_must_confirm_with_yes(client: Client, address: str, thread_id: str) -> None:
    await client.run("tester", "count", thread_id=thread_id)
    asked = await wakeful("rewind", thread_id, "--to", "4", address=address)
    assert (asked.code, asked.out) == (1, "")
    assert asked.err.splitlines() == [
        f"thread {thread_id} goes back to the end of step 4",
        "  undone     steps 5 to 11, 13 messages",
        SIDE_EFFECTS,
        "wakeful: nothing is undone: without a terminal to ask at, confirm with --yes",
    ]
    done = await wakeful("rewind", thread_id, "--to", "4", "--reason", "typo", "--yes", address=address)
    assert (done.code, done.out) == (0, f"thread {thread_id} is back at the end of step 4: 7 steps undone\n")
    assert (await client.result(thread_id)).response == "counted to 11"
    printed = await wakeful("rewind", thread_id, "--to", "0", "--yes", "--json", address=address)
    rewound = json.loads(printed.out)
    assert (rewound["thread_id"], rewound["step"], rewound["undone"]) == (thread_id, 0, 11)
    await client.result(thread_id)


@pytest.mark.integration
async def test_a_person_is_asked_to_confirm(client: Client, address: str, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    command = ("rewind", thread_id, "--to", "1")
    async with terminal(*command, TEMPORAL_ADDRESS=address) as shown:
        assert "undone     step 2, 1 message" in await shown.until("Rewind? [y/N]")
        shown.type(f"n{ENTER}")
        await shown.until("nothing is undone")
        assert await shown.ended() == 1
    async with terminal(*command, TEMPORAL_ADDRESS=address) as shown:
        await shown.until("Rewind? [y/N]")
        shown.type(f"y{ENTER}")
        await shown.until("is back at the end of step 1: 1 step undone")
        assert await shown.ended() == 0
    assert (await client.result(thread_id)).response == "the sum is 5"


async def test_what_cannot_be_undone_is_an_error(client: Client, address: str, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    refused = await wakeful("rewind", thread_id, "--to", "2", "--yes", address=address)
    assert refused.code == 1
    assert "there is nothing after step 2" in refused.err


def test_tasks_are_named_before_and_after() -> None:
    place = ResetPoint("r", 4, 1)
    plan = RewindPlan("t", 0, place, (Step(1, "r1", 1, start=1, end=2),), 1, ("t/a-1", "t/b\x1b-2"), ("r",))
    assert plan_lines(plan) == [
        "thread t goes back to its first model call",
        "  undone     step 1, 1 message",
        "  cancelled  t/a-1",
        r"  cancelled  t/b\u001b-2",
        SIDE_EFFECTS,
    ]
    assert plan_lines(RewindPlan("t", 2, place, (), 0, (), ("r",)))[1] == (
        "  undone     0 messages, and the model call under way"
    )
    rewound = Rewound(thread_id="t", step=1, undone=1, cancelled=("t/a-1",), resent=2, run_id="r")
    assert rewound_lines(rewound) == [
        "thread t is back at the end of step 1: 1 step undone",
        "  cancelled  t/a-1",
        "  sent again 2 messages from other threads",
    ]
