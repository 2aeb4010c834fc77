"""What a person sees of a run while it happens, on an emulated terminal."""

import io

import pyte
import pytest
from pydantic import JsonValue

from tests.loop.driving import call_resumed
from wakeful.cli.terminal.call_lines import progress_text
from wakeful.cli.terminal.colours import PLAIN
from wakeful.cli.terminal.guarded_stream import readable
from wakeful.cli.terminal.live_view import LiveView
from wakeful.cli.terminal.screen import Screen, display_width, truncated
from wakeful.contract.events import (
    ActivitySnapshot,
    AgentEvent,
    ErrorEvent,
    EventRecord,
    ReasoningDelta,
    RunFinish,
    StepEnd,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStart,
    ToolCallStreamDelta,
)
from wakeful.contract.runs import NaturalEnd
from wakeful.contract.tools import ToolResult

COLUMNS = 60


class Emulated:
    """A live view, and an emulated terminal that it writes on."""

    def __init__(self, *, folds: bool = True, in_place: bool = True) -> None:
        self.out = io.StringIO()
        self.view = LiveView(Screen(self.out, in_place=in_place, colours=PLAIN), folds=folds)

    def show(self, *events: AgentEvent, path: tuple[str, ...] = (), at: int = 0, provisional: bool = False) -> None:
        for event in events:
            self.view.show(
                EventRecord(
                    seq=1,
                    at=at,
                    thread_id=path[-1] if path else "t",
                    run_id="r",
                    agent_id="helper",
                    path=path,
                    provisional=provisional,
                    event=event,
                )
            )

    @property
    def lines(self) -> list[str]:
        screen = pyte.Screen(COLUMNS, 30)
        pyte.Stream(screen).feed(self.out.getvalue().replace("\n", "\r\n"))
        lines = [line.rstrip() for line in screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Emulated:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    return Emulated()


def done(name: str, data: str, id: str = "c1") -> ToolCallDone:
    return ToolCallDone(id=id, result=ToolResult.success(name, data), outcome=ToolCallOutcome.SUCCEEDED)


def test_an_answer_is_written_as_it_arrives_and_ends_the_wait_for_the_model(screen: Emulated) -> None:
    screen.show(StepStart(message_id="m"))
    assert screen.lines == ["· waiting for the model"]
    screen.show(ReasoningDelta(delta="Hm, "), ReasoningDelta(delta="well."), provisional=True)
    screen.show(TextDelta(delta="One "), TextDelta(delta="two"), provisional=True)
    assert screen.lines == ["Hm, well.", "", "One two"]
    screen.show(TextDelta(delta=" three."), StepEnd())
    assert screen.lines == ["Hm, well.", "", "One two three."]
    assert screen.view.answer == "One two three."


def test_an_answer_starts_over_after_a_stream_reset(screen: Emulated) -> None:
    screen.show(
        StepStart(message_id="m"), TextDelta(delta="Wrong"), ToolCallStart(id="c1", name="add"), provisional=True
    )
    screen.show(StreamReset(reason="the connection broke"), TextDelta(delta="Right."), provisional=True)
    assert screen.lines == ["Wrong", "↻ the connection broke: the answer starts over", "", "Right."]
    assert screen.view.answer == "Right."


def test_a_call_is_one_line_from_its_first_letter_to_its_result(screen: Emulated) -> None:
    screen.show(ToolCallStart(id="c1", name="dig"), ToolCallDelta(id="c1", args_delta='{"deep": tr'), provisional=True)
    assert screen.lines == ['→ dig({"deep": tr']
    screen.show(ToolCallReady(id="c1", name="dig", arguments={"deep": True}), at=1000)
    assert screen.lines == ["→ dig(deep=true)"]
    progress: JsonValue = {"call_id": "c1", "progress": 0.25, "message": "digging"}
    screen.show(
        ActivitySnapshot(message_id="m", activity_type="tool-call-progress", content=progress), provisional=True
    )
    assert screen.lines == ["→ dig(deep=true)  25% digging"]
    screen.show(ToolCallStreamDelta(id="c1", name="dig", delta="sand\nclay\n"), provisional=True)
    screen.show(ToolCallStreamDelta(id="c1", name="dig", delta="\n"), provisional=True)
    assert screen.lines == ["→ dig(deep=true)  clay"]
    screen.show(done("dig", "gold"), at=2500)
    assert screen.lines == ["✓ dig(deep=true)  gold  1.5s"]
    assert [result.result.text for result in screen.view.results] == ["gold"]


def test_calls_side_by_side_keep_their_lines(screen: Emulated) -> None:
    for number in (1, 2, 3):
        screen.show(ToolCallReady(id=f"c{number}", name=f"tool{number}", arguments=None))
    screen.show(done("tool2", "two", "c2"))
    assert screen.lines == ["✓ tool2()  two", "→ tool1()", "→ tool3()"]
    screen.show(ToolCallCancel(id="c1", name="tool1", reason="the run ended"), done("tool3", "three", "c3"))
    assert screen.lines == ["✓ tool2()  two", "✗ tool1 cancelled: the run ended", "✓ tool3()  three"]


@pytest.mark.parametrize(
    ("is_approved", "resumed", "line"),
    [
        (True, call_resumed("c1", "paid"), "✓ pay()  paid"),
        (True, call_resumed("c1", None), "✓ pay()  null"),
        (True, call_resumed("c1", {"id": 7}, "paid, id 7"), "✓ pay()  paid, id 7"),
        (True, call_resumed("c1", {"error": "no money"}, "no money", has_failed=True), "✗ pay()  no money"),
        (False, call_resumed("c1", None, "cancelled by decision", has_failed=True), "✗ pay()  cancelled by decision"),
        (None, call_resumed("c1", None, has_failed=True), "✗ pay()  failed"),
        (None, call_resumed("c1", "paid"), "✓ pay()  paid"),
    ],
)
def test_a_call_shows_its_result_after_its_decision(
    screen: Emulated, is_approved: bool | None, resumed: ToolCallResumed, line: str
) -> None:
    screen.show(ToolCallReady(id="c1", name="pay", arguments=None))
    pending = ToolResult.suspended("pay", message="Pay?")
    screen.show(ToolCallDone(id="c1", result=pending, outcome=ToolCallOutcome.SUSPENDED))
    assert screen.lines == ["‖ pay()  Pay?"]
    if is_approved is not None:
        screen.view.decided("t", "c1", is_approved=is_approved)
    screen.show(resumed)
    assert screen.lines[1:] == [line]


@pytest.mark.parametrize(
    "end",
    [
        RunFinish(thread_id="t/helper-1", run_id="r", termination=NaturalEnd()),
        ErrorEvent(message="thread 't/helper-1' was terminated in Temporal", code="terminated"),
    ],
)
def test_a_folded_sub_agent_is_one_line_until_it_ends(screen: Emulated, end: RunFinish | ErrorEvent) -> None:
    child = ("t/helper-1",)
    screen.show(StepStart(message_id="m"), path=child)
    assert screen.lines == ["  · helper: waiting for its model"]
    screen.show(ReasoningDelta(delta="Hm."), path=child, provisional=True)
    assert screen.lines == ["  · helper: thinking"]
    screen.show(TextDelta(delta="I look\n"), TextDelta(delta="around"), path=child, provisional=True)
    assert screen.lines == ["  · helper: I look around"]
    screen.show(ToolCallReady(id="c1", name="look", arguments={"at": "it"}), path=child)
    assert screen.lines == ['  · helper: → look(at="it")']
    screen.show(end, path=child)
    assert screen.lines == []


def test_unfolded_sub_agents_speak_in_whole_lines_under_their_paths() -> None:
    screen = Emulated(folds=False, in_place=False)
    one, two = ("t/one",), ("t/two", "t/two/three")
    screen.show(TextDelta(delta="First li"), path=one, provisional=True)
    screen.show(TextDelta(delta="Other"), StepEnd(), path=two)
    screen.show(TextDelta(delta="ne\nlast"), StepEnd(), path=one)
    assert screen.out.getvalue().splitlines() == [
        "    t/two > t/two/three",
        "      Other",
        "  t/one",
        "    First line",
        "    last",
    ]


def test_long_text_is_wrapped_between_words_and_written_once(screen: Emulated) -> None:
    words = "The quick brown fox jumps over the lazy dog and then " * 3
    for start in range(0, len(words), 7):
        screen.show(TextDelta(delta=words[start : start + 7]), provisional=True)
    assert " ".join(screen.lines).split() == words.split()
    assert all(len(line) < COLUMNS for line in screen.lines)
    assert len(screen.lines) == 3
    screen.show(TextDelta(delta="x" * 150))
    assert "".join(screen.lines).count("x") == words.count("x") + 150


def test_a_model_cannot_move_the_cursor_or_hide_what_it_says(screen: Emulated) -> None:
    screen.show(TextDelta(delta="a\x1b[2Jb\u202ec\r\nd\u00a0e 👩\u200d💻"))
    assert screen.out.getvalue() == "a\\u001b[2Jb\\u202ec\nd\u00a0e 👩\u200d💻"
    assert readable("\x07") == "\\u0007"


def test_without_redrawing_every_event_is_a_line() -> None:
    screen = Emulated(in_place=False)
    screen.show(StepStart(message_id="m"), ToolCallReady(id="c1", name="add", arguments={"a": 1}), done("add", "5"))
    screen.show(TextDelta(delta="It is "), TextDelta(delta="5."))
    assert screen.out.getvalue() == "→ add(a=1)\n✓ add: 5\n\nIt is 5."


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, ""),
        ({"progress": 0.5}, "  50%"),
        ({"loaded": 1500, "total": 3000.0}, "  1,500 of 3,000"),
        ({"loaded": 3, "message": "files\nread"}, "  3 files read"),
    ],
)
def test_progress_is_a_few_words(content: dict[str, JsonValue], words: str) -> None:
    assert progress_text(content) == words


def test_a_line_is_cut_to_the_columns_that_it_takes() -> None:
    assert truncated("abcdef", 6) == "abcdef"
    assert truncated("abcdefg", 6) == "abcde…"
    assert (display_width("日本"), truncated("日本語", 5)) == (4, "日本…")
