"""The files of a sub-agent's answer reach its caller, whose model reads them beside the text (B-505)."""

import pytest

from tests.loop.children import PARENT, child_settled, delegate_call, spawn_call, with_tasks
from tests.loop.driving import REQUEST, Driver, asks, call, make_agent, says
from wakeful.contract import ids
from wakeful.contract.messages import Base64Source, DocumentBlock, ImageBlock
from wakeful.contract.runs import Cancelled
from wakeful.contract.subagents import SubagentContext
from wakeful.loop.machine.commands import NotifyParent, StartChild
from wakeful.loop.machine.revisions import REVISION

PLAN = ImageBlock(source=Base64Source(media_type="image/png", data="aGk="))
NOTES = DocumentBlock(source=Base64Source(media_type="text/plain", data="aGk="), title="notes.txt")


def subagent(revision: int = REVISION) -> Driver:
    context = SubagentContext(path=("root",), work_id="delegate-1-1")
    request = REQUEST.model_copy(update={"subagent": context, "parent_thread_id": "root"})
    return Driver(make_agent(), request=request, revision=revision)


@pytest.mark.parametrize(("revision", "files"), [(REVISION, (PLAN, NOTES)), (2, ())], ids=["now", "before"])
def test_a_sub_agent_reports_the_files_of_its_answer(revision: int, files: tuple[object, ...]) -> None:
    driver = subagent(revision)
    driver.model(says("See the plan.").model_copy(update={"media": (PLAN, NOTES)}))
    (report,) = driver.commands_of(NotifyParent)
    assert report.result.media == files


def test_a_sub_agent_that_ends_without_an_answer_reports_no_files() -> None:
    driver = subagent()
    driver.model(asks(call("c1")).model_copy(update={"media": (PLAN,)}))
    driver.cancel()
    driver.tool_cancelled("c1")
    (report,) = driver.commands_of(NotifyParent)
    assert report.result.media == ()
    assert child_settled("w", termination=Cancelled(), media=(PLAN,)).result.media == ()


def test_the_caller_of_a_delegate_reads_its_files_from_where_history_has_them() -> None:
    """The next inference refers to the signal that brought them, and does not repeat them."""
    driver = Driver(PARENT)
    driver.model(asks(delegate_call("c1")))
    (started,) = driver.commands_of(StartChild)
    work_id = started.id
    driver.feed(child_settled(work_id, response="See the plan.", media=(PLAN,)))
    message = driver.thread.transcript.messages[-1]
    assert (message.tool_call_id, message.media) == ("c1", (PLAN,))
    assert ids.source(ids.FromChild(work_id)) in driver.inference().appended


def test_the_owner_of_a_task_reads_the_files_with_its_end() -> None:
    driver = with_tasks(spawn_call("c1"))
    (task,) = driver.thread.children.running
    driver.model(says("Waiting."))
    driver.feed(child_settled(task.task_id, response="See the plan.", media=(PLAN, NOTES)))
    assert driver.thread.transcript.messages[-1].media == (PLAN, NOTES)
    assert ids.source(ids.FromChild(task.task_id)) in driver.inference().appended
