"""The answer to a message and the runs of a thread, as folds of its events. Pure."""

from dataclasses import dataclass

import pytest
from pydantic import TypeAdapter

from wakeful import (
    CallerError,
    Message,
    NotAnswered,
    OutputMismatch,
    Role,
    RunBlocked,
    RunCancelled,
    RunFailed,
    RunIdentity,
    RunResult,
    RunStatus,
    RunStopped,
)
from wakeful.client.answers import (
    AnswerFinder,
    Finding,
    PerhapsRefused,
    PerhapsSuspended,
    Rewound,
    RunEnded,
    Unanswerable,
    adapter_of,
    parse_output,
    raise_unless_answered,
)
from wakeful.client.thread_runs import RunsFold
from wakeful.contract.events import (
    AgentEvent,
    ErrorEvent,
    EventRecord,
    FinishSummary,
    MessageReceived,
    MessagesRead,
    MessagesWithdrawn,
    RunFinish,
    RunStart,
    SignalRefused,
    StepStart,
    StreamReset,
)
from wakeful.contract.runs import (
    BehaviorRequested,
    Blocked,
    Cancelled,
    Errored,
    NaturalEnd,
    StopDetail,
    Stopped,
    Suspended,
    Termination,
    status_reason,
)

STEP = StepStart(message_id="x")


def record(event: AgentEvent, *, seq: int = 1, run: str = "r", thread: str = "t", live: bool = False) -> EventRecord:
    return EventRecord(seq=seq, at=seq, thread_id=thread, run_id=run, agent_id="a", provisional=live, event=event)


def start(run: str, *message_ids: str) -> EventRecord:
    identity = RunIdentity(thread_id="t", run_id=run, agent_id="a")
    return record(RunStart(thread_id="t", run_id=run, identity=identity, message_ids=message_ids), run=run)


def finish(
    run: str,
    termination: Termination | None = None,
    *,
    says: str = "",
    status: RunStatus = RunStatus.DONE,
    unread: tuple[str, ...] = (),
    rolled_back: bool = False,
    thread: str = "t",
) -> EventRecord:
    event = RunFinish(
        thread_id=thread,
        run_id=run,
        identity=RunIdentity(thread_id=thread, run_id=run, agent_id="a"),
        result=FinishSummary(response=says, status=status, unread=unread),
        termination=termination or NaturalEnd(),
        rolled_back=rolled_back,
    )
    return record(event, run=run, thread=thread)


def pause(run: str, *, thread: str = "t") -> EventRecord:
    return finish(run, Suspended(), status=RunStatus.WAITING, thread=thread)


def found(*records: EventRecord) -> list[Finding]:
    """What the events say about message `m`."""
    finder = AnswerFinder("t", "m")
    return [finding for record in records if (finding := finder.on_record(record)) is not None]


def ended(run: str, says: str, steps: int, *, is_whole: bool = True) -> RunEnded:
    result = RunResult(
        thread_id="t",
        run_id=run,
        agent_id="a",
        status_reason="natural",
        termination=NaturalEnd(),
        response=says,
        steps=steps,
    )
    return RunEnded(result, is_whole=is_whole)


def test_the_answer_is_the_end_of_the_run_that_read_the_message() -> None:
    first = [start("r1", "other"), record(STEP, run="r1"), finish("r1", says="no")]
    second = [start("r2", "m"), record(STEP, run="r2"), record(STEP, run="r2"), finish("r2", says="yes")]
    assert found(*first, *second) == [ended("r2", "yes", 2)]


def test_a_message_that_steers_a_run_has_its_answer() -> None:
    read = record(MessagesRead(message_ids=("n", "m")), run="r1")
    assert found(start("r1", "other"), record(STEP, run="r1"), read, finish("r1", says="yes")) == [
        ended("r1", "yes", 1)
    ]
    assert found(read, record(STEP, run="r1"), finish("r1", says="yes")) == [ended("r1", "yes", 0, is_whole=False)]


def test_a_run_that_pauses_may_need_a_decision_and_answers_later() -> None:
    records = start("r", "m"), record(STEP), pause("r"), start("r"), record(STEP), finish("r", says="yes")
    assert found(*records) == [PerhapsSuspended(), ended("r", "yes", 2)]
    assert found(pause("child", thread="t/child"), finish("child", thread="t/child")) == [PerhapsSuspended()]


def test_what_keeps_a_message_from_being_read_is_found() -> None:
    too_late = "the thread ended before a run read it; ask again with this message_id to wake it"
    assert found(record(MessagesWithdrawn(message_ids=("n", "m")))) == [Unanswerable("it was withdrawn")]
    assert found(finish("r", Cancelled(), unread=("m",))) == [Unanswerable(too_late)]
    assert found(record(SignalRefused(signal="submit", reason="busy"))) == [PerhapsRefused()]
    assert found(record(SignalRefused(signal="decide", reason="late"))) == []
    assert found(record(ErrorEvent(message="terminated"), live=True)) == [Unanswerable("terminated")]
    assert found(record(StreamReset(reason="rewound"), live=True)) == [Rewound()]
    assert found(record(StreamReset(reason="retried"))) == []


def test_a_run_that_was_rolled_back_was_cancelled() -> None:
    [finding] = found(start("r", "m"), finish("r", rolled_back=True))
    assert isinstance(finding, RunEnded)
    assert isinstance(finding.result.termination, Cancelled)


def test_the_finder_knows_when_the_thread_has_the_message() -> None:
    finder = AnswerFinder("t", "m")
    for id, is_received in (("n", False), ("m", True)):
        assert finder.on_record(record(MessageReceived(message=Message(id=id, role=Role.USER)))) is None
        assert finder.is_received is is_received


ENDS: list[tuple[Termination, type[NotAnswered], str]] = [
    (Errored(value="no key"), RunFailed, "the run failed: no key"),
    (Errored(value="no number", code="invalid_output"), OutputMismatch, "the run failed: no number"),
    (Cancelled(), RunCancelled, "the run was cancelled: enough"),
    (Blocked(value="not today"), RunBlocked, "the run was blocked: not today"),
    (Stopped(value=StopDetail(code="budget", detail="spent")), RunStopped, r"the run was stopped \(budget\): spent"),
]


def result(termination: Termination, output: object = None) -> RunResult:
    return RunResult.model_validate(
        {
            "thread_id": "t",
            "run_id": "r",
            "agent_id": "a",
            "status_reason": status_reason(termination),
            "termination": termination,
            "detail": "enough",
            "output": output,
        }
    )


@pytest.mark.parametrize(("termination", "error", "message"), ENDS)
def test_a_run_that_did_not_answer_is_an_error(
    termination: Termination, error: type[NotAnswered], message: str
) -> None:
    with pytest.raises(error, match=f"message 'm' has no answer on thread 't': {message}") as raised:
        raise_unless_answered("m", result(termination))
    assert (type(raised.value), raised.value.result) == (error, result(termination))


def test_a_run_that_ended_because_it_has_what_was_wanted_is_an_answer() -> None:
    wanted = [Stopped(value=StopDetail(code=code)) for code in ("stop_on_tool", "content_match")]
    ends: list[Termination] = [NaturalEnd(), BehaviorRequested(), *wanted]
    for termination in ends:
        raise_unless_answered("m", result(termination))


@dataclass
class Point:
    x: int


def test_an_output_is_parsed_as_the_type_that_was_asked_for() -> None:
    assert parse_output("m", result(NaturalEnd(), {"x": 1}), adapter_of(Point)) == Point(1)
    assert parse_output("m", result(NaturalEnd()), TypeAdapter[Point | None](Point | None)) is None
    with pytest.raises(OutputMismatch, match="x: Input should be a valid integer"):
        parse_output("m", result(NaturalEnd(), {"x": "one"}), adapter_of(Point))
    with pytest.raises(OutputMismatch, match=r"without an output \(natural\); Agent\(output=…\) of agent 'a' declares"):
        parse_output("m", result(NaturalEnd()), adapter_of(Point))
    with pytest.raises(CallerError, match="cannot be parsed from JSON"):
        adapter_of(AnswerFinder)


def test_the_runs_of_a_thread_are_a_fold_of_its_events() -> None:
    fold = RunsFold("t")
    steered = record(MessagesRead(message_ids=("n",)), run="r1")
    first = [start("r1", "m"), record(STEP, run="r1"), pause("r1"), start("r1"), steered, record(STEP, run="r1")]
    for each in (*first, finish("r1", says="yes"), start("r2", "o"), pause("r2")):
        fold.on_record(each)
    done, waiting = fold.runs
    assert (done.message_ids, done.steps, done.status) == (("m", "n"), 2, RunStatus.DONE)
    assert done.result == ended("r1", "yes", 2).result
    assert (waiting.run_id, waiting.status, waiting.result) == ("r2", RunStatus.WAITING, None)
    fold.on_record(record(ErrorEvent(message="terminated"), run="r2", live=True))
    ended_from_outside = fold.runs[-1].result
    assert ended_from_outside is not None
    assert ended_from_outside.status_reason == "error:terminated"


def test_a_run_that_began_before_the_first_event_is_left_out() -> None:
    fold = RunsFold("t", is_from_start=False)
    for each in (record(STEP, run="r1"), start("r1"), finish("r1"), start("r2", "m")):
        fold.on_record(each)
    assert [run.run_id for run in fold.runs] == ["r2"]
