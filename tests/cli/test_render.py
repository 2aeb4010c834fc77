"""What plugins and state look like in a terminal."""

from temporalio.client import Client as TemporalClient

from tests.loop.driving import call_resumed
from tests.support.app import registry
from tests.support.processes import wakeful
from wakeful.cli.terminal.render import event_lines, state_lines
from wakeful.client.client import Client
from wakeful.contract.events import (
    AgentEvent,
    FinishSummary,
    HookFailed,
    MessageReceived,
    PluginEvent,
    RunFinish,
    StateConflict,
    StateSnapshot,
)
from wakeful.contract.messages import ImageBlock, Message, Role, TextBlock, UrlSource, Visibility
from wakeful.contract.runs import Cancelled
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


def test_a_message_is_shown_as_it_was_typed() -> None:
    image = ImageBlock(source=UrlSource(url="https://example.org/a.png"))
    received = [
        Message(id="m1", role=Role.USER, content=(TextBlock(text="One\nTwo\x1b[2J"),)),
        Message(id="m2", role=Role.USER, content=(image,)),
        Message(id="m3", role=Role.USER, content=(TextBlock(text="psst"),), visibility=Visibility.INTERNAL),
    ]
    lines = [line for message in received for line in event_lines(MessageReceived(message=message))]
    assert lines == ["> One", r"> Two\u001b[2J", "> [image]"]


def test_the_end_of_a_run_is_shown_with_the_reason_that_was_given() -> None:
    def line(**summary: str) -> list[str]:
        result = FinishSummary.model_validate({"response": "", "status": "done", **summary})
        return event_lines(RunFinish(thread_id="t", run_id="r", result=result, termination=Cancelled()))

    assert line(status_reason="cancelled", detail="too\nslow") == ["■ cancelled: too slow"]
    assert line(status_reason="natural") == ["■ natural"]
    assert event_lines(RunFinish(thread_id="t", run_id="r", termination=Cancelled())) == ["■ done"]


def test_a_call_that_was_suspended_shows_what_became_of_it() -> None:
    assert event_lines(call_resumed("1-1", {"id": 7})) == ['✓ 1-1 resumed: {"id":7}']
    assert event_lines(call_resumed("1-1", None, "cancelled by decision", has_failed=True)) == [
        "✗ 1-1 resumed: cancelled by decision"
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
