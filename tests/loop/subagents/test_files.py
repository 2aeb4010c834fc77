"""The files of a sub-agent's answer reach its caller, whose model reads them beside the text (B-505)."""

import pytest

from tests.loop.children import PARENT, child_settled, delegate_call, idle_with_task, spawn_call, with_tasks
from tests.loop.driving import REQUEST, THREAD, Driver, after_continue_as_new, asks, call, make_agent, ok, says
from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.events import RunFinish
from wakeful.contract.files import FileRef
from wakeful.contract.messages import Base64Source, DocumentBlock, ImageBlock, MediaBlock, Role, UrlSource
from wakeful.contract.runs import Cancelled
from wakeful.contract.subagents import SubagentContext
from wakeful.contract.tools import ToolResult
from wakeful.loop.machine.commands import NotifyParent, StartChild
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.machine.state import KEPT_FILES

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


def drawn(*media: MediaBlock) -> ToolResult:
    return ToolResult.success("look", "Drawn.").model_copy(update={"media": media})


def drawing(driver: Driver, *calls: str) -> Driver:
    """The model has called a tool that returns a picture, as often as there are calls."""
    driver.model(asks(*(call(id) for id in calls)))
    for id in calls:
        driver.tool(id, drawn(PLAN))
    return driver


def test_a_run_refers_to_the_files_that_its_tools_returned() -> None:
    driver = Driver(make_agent())
    driver.model(asks(call("c1"), call("c2")))
    driver.tool("c1", drawn(PLAN, NOTES))
    driver.tool("c2", ok("nothing drawn"))
    drawing(driver, "c3").model(says("See the plan."))
    first, _, second = (each for each in driver.thread.transcript.messages if each.role is Role.TOOL)
    plan = FileRef(thread_id="t1", message_id=first.id, type="image", media_type="image/png", tool="look", call_id="c1")
    notes: dict[str, object] = {"index": 1, "type": "document", "media_type": "text/plain", "title": "notes.txt"}
    files = (
        plan,
        plan.model_copy(update=notes),
        plan.model_copy(update={"message_id": second.id, "call_id": "c3"}),
    )
    assert (driver.result.tool_files, driver.result.artifacts) == (files, ())
    finish = driver.events[-1]
    assert isinstance(finish, RunFinish)
    assert finish.result is not None
    assert finish.result.tool_files == files


def test_a_file_that_is_an_address_has_no_media_type() -> None:
    driver = Driver(make_agent())
    driver.model(asks(call("c1")))
    driver.tool("c1", drawn(ImageBlock(source=UrlSource(url="https://example.com/plan.png"))))
    driver.model(says("See the plan."))
    assert [(file.type, file.media_type) for file in driver.result.tool_files] == [("image", None)]


def test_of_many_files_a_run_refers_to_the_newest() -> None:
    driver = Driver(make_agent(max_rounds=KEPT_FILES + 3))
    for step in range(KEPT_FILES + 2):
        drawing(driver, f"c{step}")
    driver.last = replace(driver.last, thread=after_continue_as_new(driver.thread))
    driver.model(says("See the plans."))
    files = driver.result.tool_files
    assert (len(files), files[0].call_id, files[-1].call_id) == (KEPT_FILES, "c2", f"c{KEPT_FILES + 1}")


def test_a_run_of_an_earlier_revision_leaves_the_files_of_its_tools_in_the_conversation() -> None:
    driver = drawing(Driver(make_agent(), revision=3), "c1")
    driver.model(says("See the plan."))
    assert driver.result.tool_files == ()


def test_the_next_run_does_not_refer_to_the_files_of_the_last_one() -> None:
    driver = drawing(Driver(make_agent(), request=THREAD), "c1")
    driver.model(says("See the plan."))
    assert len(driver.result.tool_files) == 1
    driver.submit("m2")
    driver.resolve()
    driver.model(says("Which plan?"))
    assert not driver.result.tool_files


def test_the_files_of_a_sub_agents_tools_are_those_of_its_callers_run_and_its_model_reads_which_there_are() -> None:
    driver = drawing(subagent(), "c1")
    driver.model(says("See the plan."))
    (report,) = driver.commands_of(NotifyParent)
    assert (report.result.files, report.result.media) == (driver.result.tool_files, ())

    caller = Driver(PARENT)
    caller.model(asks(delegate_call("c1")))
    (started,) = caller.commands_of(StartChild)
    caller.feed(child_settled(started.id, response="See the plan.", files=report.result.files))
    read = caller.json_result("c1")
    assert isinstance(read, dict)
    assert read["files"] == [{"type": "image", "media_type": "image/png", "tool": "look"}]
    caller.model(says("There is a plan."))
    assert caller.result.tool_files == report.result.files


def test_a_sub_agent_that_fails_reports_no_files_of_its_tools() -> None:
    file = FileRef(thread_id="t1/x", message_id="r-3", type="image")
    assert child_settled("w", termination=Cancelled(), files=(file,)).result.files == ()


@pytest.mark.parametrize("idle", [False, True])
def test_the_run_that_reads_the_end_of_a_task_has_the_files_of_its_tools(*, idle: bool) -> None:
    file = FileRef(thread_id="t1/x", message_id="r-3", type="image")
    driver = idle_with_task(spawn_call("c1")) if idle else with_tasks(spawn_call("c1"))
    (task,) = driver.thread.children.running
    if not idle:
        driver.model(says("Waiting."))
    driver.feed(child_settled(task.task_id, response="See the plan.", files=(file,), media=(PLAN,)))
    if idle:
        driver.resolve()
    own = FileRef(
        thread_id="t1", message_id=driver.thread.transcript.messages[-1].id, type="image", media_type="image/png"
    )
    driver.model(says("There is a plan."))
    assert driver.result.tool_files == (file, own)
