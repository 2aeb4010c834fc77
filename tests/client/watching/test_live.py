"""Whatever was shown of an answer while it streamed, a reader who folds the records ends with what is in history."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.support.folding import Answered, folded
from wakeful.cli.terminal.render import event_lines
from wakeful.client.watching.live import DROPPED, RESTARTED, REWRITTEN, ActivityHeartbeat, LiveRecords
from wakeful.client.watching.partial_answer import stable_arguments
from wakeful.contract.events import AgentEvent, EventRecord, MailArrived, RunFinish, StepEnd, StepStart
from wakeful.contract.events import ToolCallStart as Start
from wakeful.contract.inference import Interruption, ModelResponse, RecoveryPlan
from wakeful.contract.messages import ThinkingBlock, ToolCall
from wakeful.contract.runs import Cancelled
from wakeful.contract.streaming import PartialCall, StreamCheckpoint
from wakeful.contract.views import EventsPage
from wakeful.loop.machine.events import answer_events

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=4), JSON, max_size=3)
TEXT = st.text(max_size=12)


@st.composite
def answers(draw: st.DrawFn) -> ModelResponse:
    ids = draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3))
    calls = tuple(ToolCall(id=id, name=draw(st.sampled_from(["add", "find"])), arguments=draw(ARGUMENTS)) for id in ids)
    reasoning, blocks = draw(TEXT), draw(st.lists(st.text(max_size=6), max_size=2))
    thinking = tuple(ThinkingBlock(thinking=block, signature=f"s{number}") for number, block in enumerate(blocks))
    return ModelResponse(
        model="m", text=draw(TEXT), reasoning="" if thinking else reasoning, thinking=thinking, tool_calls=calls
    )


@st.composite
def checkpoints(draw: st.DrawFn, answer: ModelResponse) -> list[StreamCheckpoint]:
    """The answer as it grew in one attempt, its arguments in any JSON spelling."""
    spelling: dict[str, Any] = draw(
        st.sampled_from([{"indent": 1}, {"ensure_ascii": False}, {"separators": (" , ", " :  ")}, {}])
    )
    written = [json.dumps(call.arguments, **spelling) for call in answer.tool_calls]
    thought = answer.reasoning or "".join(block.thinking for block in answer.thinking)
    total = len(thought) + len(answer.text) + sum(map(len, written))
    found = []
    for came in sorted(draw(st.lists(st.integers(0, total), max_size=5))):
        left = came - len(thought)
        text, left = answer.text[: max(0, left)], left - len(answer.text)
        calls = []
        for call, arguments in zip(answer.tool_calls, written, strict=True):
            if left >= 0:
                calls.append(PartialCall(id=call.id, name=call.name, arguments=arguments[:left]))
            left -= len(arguments)
        found.append(StreamCheckpoint(attempt=1, model="m", reasoning=thought[:came], text=text, calls=tuple(calls)))
    return found


def heartbeat(details: StreamCheckpoint | Any) -> ActivityHeartbeat:
    value = details.model_dump(mode="json") if isinstance(details, StreamCheckpoint) else details
    return ActivityHeartbeat("infer-1", "infer", value, at=5)


def numbered(events: Sequence[AgentEvent], first: int) -> tuple[EventRecord, ...]:
    return tuple(
        EventRecord(seq=seq, at=seq, thread_id="t", run_id="r", agent_id="a", event=event)
        for seq, event in enumerate(events, first)
    )


def pages(records: Sequence[EventRecord], sizes: Sequence[int], after: int) -> list[EventsPage]:
    cut: list[EventsPage] = []
    rest = list(records)
    for size in (*sizes, len(rest)):
        taken, rest = rest[:size], rest[size:]
        after += len(taken)
        cut.append(EventsPage(events=tuple(taken), last=after, done=False, more=bool(rest)))
    return cut


STARTED = EventsPage(events=numbered([StepStart(message_id="m")], 1), last=1, done=False, in_flight=("infer-1",))


def whole(answer: ModelResponse) -> Answered:
    thought = answer.reasoning or "".join(block.thinking for block in answer.thinking)
    calls = tuple(
        (call.id, call.name, json.dumps(call.arguments, separators=(",", ":"), ensure_ascii=False))
        for call in answer.tool_calls
    )
    return Answered(thought, answer.text, calls, tuple(block.signature or "" for block in answer.thinking))


def shown(
    came: Sequence[StreamCheckpoint], events: Sequence[AgentEvent], sizes: Sequence[int] = ()
) -> list[EventRecord]:
    """Everything that a watcher yields for these checkpoints and then the events of a step."""
    live = LiveRecords(0)
    records = live.on_page(STARTED)
    for checkpoint in came:
        records += live.on_heartbeat(heartbeat(checkpoint))
    for page in pages(numbered(events, 2), sizes, 1):
        records += live.on_page(page)
    return records


def check_numbers(records: Sequence[EventRecord]) -> None:
    """Durable records come once and in order; a provisional one has the number of the last of them."""
    after = 0
    for record in records:
        assert record.seq == after if record.provisional else record.seq > after
        after = record.seq


def check_announced_once(records: Sequence[EventRecord]) -> None:
    announced: set[str] = set()
    for event in (record.event for record in records):
        if event.event_type in ("stream_reset", "inference_complete"):
            announced.clear()
        if isinstance(event, Start):
            assert event.id not in announced
            announced.add(event.id)


SIZES = st.lists(st.integers(0, 4), max_size=3)


@given(st.data())
def test_an_answer_that_only_grows_is_never_reset(data: st.DataObject) -> None:
    """In whatever JSON spelling the model writes its arguments."""
    answer = data.draw(answers())
    records = shown(
        data.draw(checkpoints(answer)), (*answer_events(answer, duration_ms=1), StepEnd()), data.draw(SIZES)
    )
    fold = folded(records)
    assert (fold.answers, fold.resets) == ([whole(answer)], [])
    check_numbers(records)
    check_announced_once(records)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_checkpoints_before_any_answer_end_with_what_is_in_history(data: st.DataObject) -> None:
    """B-111: attempts that restarted, answers that a hook rewrote, and incomplete calls that were dropped."""
    came = [
        checkpoint
        for _ in range(data.draw(st.integers(0, 3)))
        for checkpoint in data.draw(checkpoints(data.draw(answers())))
    ]
    answer = data.draw(answers())
    came += data.draw(st.just([]) | checkpoints(answer))
    plans = st.sampled_from([RecoveryPlan.RESTART, RecoveryPlan.CONTINUE_TEXT, RecoveryPlan.TRUNCATE_BEFORE_TOOL])
    broken = st.builds(
        Interruption, cause=st.just("reset"), plan=plans, call_id=st.none() | st.sampled_from(["a", "b"])
    )
    interruptions = tuple(data.draw(st.lists(broken, max_size=2)))
    interrupted = answer.model_copy(update={"interruptions": interruptions})
    events = (MailArrived(message_id="m", text="hi"), *answer_events(interrupted, duration_ms=1), StepEnd())
    records = shown(came, events, data.draw(SIZES))
    assert folded(records).answers == [whole(answer)]
    check_numbers(records)
    check_announced_once(records)


@given(st.data())
def test_an_answer_that_is_dropped_is_reset(data: st.DataObject) -> None:
    answer = data.draw(answers().filter(lambda answer: bool(answer.text)))
    came = [StreamCheckpoint(attempt=1, model="m", text=answer.text)]
    records = shown(came, (StepEnd(), RunFinish(thread_id="t", run_id="r", termination=Cancelled())))
    fold = folded(records)
    assert (fold.answers, fold.resets, [record.seq for record in fold.durable]) == ([], [DROPPED], [1, 2, 3])


def test_an_answer_that_is_restarted_or_rewritten_is_shown_from_its_start() -> None:
    came = [StreamCheckpoint(attempt=number, model="m", text=text) for number, text in enumerate(["One", "Two"], 1)]
    answer = ModelResponse(model="m", text="Three")
    fold = folded(shown(came, answer_events(answer, duration_ms=1)))
    assert (fold.answers, fold.resets) == ([whole(answer)], [RESTARTED, REWRITTEN])


def test_signatures_of_an_answer_that_was_shown_in_part_are_provisional_as_the_rest_of_it() -> None:
    """B-702: a reader that resumes after them would otherwise not know which part of the text it has."""
    thinking = (ThinkingBlock(thinking="Hm.", signature="s"),)
    answer = ModelResponse(model="m", text="Three", thinking=thinking)
    came = [StreamCheckpoint(attempt=1, model="m", text="Th", thinking=thinking)]
    records = shown(came, answer_events(answer, duration_ms=1))
    assert [(record.event.event_type, record.provisional) for record in records[1:]] == [
        ("reasoning_delta", True),
        ("text_delta", True),
        ("reasoning_encrypted_value", True),
        ("text_delta", True),
        ("inference_complete", False),
    ]


def test_a_heartbeat_without_a_checkpoint_shows_nothing() -> None:
    live = LiveRecords(0)
    live.on_page(STARTED)
    for details in (None, "beat", {"attempt": "x"}, 7):
        assert live.on_heartbeat(heartbeat(details)) == []
    other = ActivityHeartbeat("infer-2", "infer", {"attempt": 1, "model": "m", "text": "of another"}, at=1)
    assert live.on_heartbeat(other) == []


def test_the_task_of_a_remote_agent_is_shown_when_its_state_changes() -> None:
    live = LiveRecords(0)
    live.on_page(STARTED)
    begun: dict[str, JsonValue] = {"service": "https://x.example.com", "context_id": "c1", "message_id": "m1"}
    working = {**begun, "task_id": "k1", "state": "working", "state_since": 3, "polls": 1}
    reports: list[JsonValue] = [begun, working, {**working, "polls": 2}, {**working, "state": "input-required"}, 1.0]
    beats = [ActivityHeartbeat("infer-1", "call_remote_agent", None, at=9, more=(report, 0.5)) for report in reports]
    records = [record for beat in beats for record in live.on_heartbeat(beat)]
    shown = {"service": "https://x.example.com", "task_id": "k1", "state": "working", "state_since": 3}
    assert [record.event.model_dump()["content"] for record in records] == [
        shown,
        {**shown, "state": "input-required"},
    ]
    assert event_lines(records[0].event) == ["◦ remote task k1 at https://x.example.com is working"]


def test_the_progress_of_a_tool_is_shown_when_it_changes() -> None:
    live = LiveRecords(0)
    live.on_page(EventsPage(events=numbered([StepEnd()], 1), last=1, done=False, in_flight=("tool.2-1-1",)))
    reports: list[JsonValue] = [{"progress": 0.5}, {"progress": 0.5}, {"progress": 1.0, "message": "there"}]
    beats = [ActivityHeartbeat("tool.2-1-1", "dig", report, at=9) for report in reports]
    records = [record for beat in beats for record in live.on_heartbeat(beat)]
    assert [(record.provisional, record.at) for record in records] == [(True, 9)] * 2
    assert records[-1].event.model_dump()["content"] == {
        "schema": "tool-call-progress.v1",
        "node_id": "tool_call:1-1",
        "parent_node_id": "run:r",
        "call_id": "1-1",
        "tool_name": "dig",
        "run_id": "r",
        "thread_id": "t",
        "status": "running",
        "progress": 1.0,
        "message": "there",
    }


@given(ARGUMENTS, st.data())
def test_incomplete_arguments_are_shown_as_history_will_spell_them(arguments: Any, data: st.DataObject) -> None:
    written = json.dumps(arguments)
    part = written[: data.draw(st.integers(0, len(written)))]
    assert json.dumps(arguments, separators=(",", ":"), ensure_ascii=False).startswith(stable_arguments(part))
