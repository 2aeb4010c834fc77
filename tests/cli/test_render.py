"""What plugins and state look like in a terminal."""

from temporalio.client import Client as TemporalClient

from tests.support.app import registry
from tests.support.processes import wakeful
from wakeful.cli.terminal.render import event_lines, state_lines
from wakeful.client.client import Client
from wakeful.contract.events import AgentEvent, HookFailed, PluginEvent, StateConflict, StateSnapshot
from wakeful.contract.state import StateView
from wakeful.worker import WorkerSettings, running_worker


def test_events_and_failures_of_plugins_are_a_line_each() -> None:
    events: list[AgentEvent] = [
        PluginEvent(plugin="guard", name="looked"),
        PluginEvent(plugin="guard", name="found", payload={"at": "a\x1b[2J"}),
        HookFailed(plugin="guard", phase="run_start", error="it took\nlonger than 5 s"),
        StateConflict(key="owner", source="1-2", reason="a concurrent write changed it"),
        StateSnapshot(snapshot={"visits": 1}),
    ]
    assert [line for event in events for line in event_lines(event)] == [
        "◦ guard: looked",
        r'◦ guard: found {"at":"a\u001b[2J"}',
        "! plugin guard failed at run_start: it took longer than 5 s",
        "! the state that 1-2 wrote is refused, because of owner: a concurrent write changed it",
    ]


def test_state_is_a_line_per_key_without_the_runtime_s_own() -> None:
    view = StateView(revision=3, values={"visits": 2, "__runtime.context_throttle": [], "notes": ["x" * 400]})
    notes, visits = state_lines(view)
    assert (len(notes), notes[:22], visits) == (169, 'state    notes = ["xxx', "state    visits = 2")


async def test_show_ends_with_the_state(temporal: TemporalClient, thread_id: str) -> None:
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
        client = Client(temporal, task_queue=thread_id)
        await client.run("tallying", "claim it", thread_id=thread_id)
        shown = await wakeful("show", thread_id, address=temporal.service_client.config.target_host)
    assert shown.out.splitlines()[-3:] == ["", "state    count = 1", 'state    owner = "ann"']
