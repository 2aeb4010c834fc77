"""`wakeful delete` as lines: what it will delete, what it has deleted, and what not."""

from wakeful.cli.terminal.delete_lines import plan_lines, receipt_lines
from wakeful.client.deletion.delete import DeleteReceipt, NotDeleted
from wakeful.client.deletion.find import Belongings, ExecutionKey


def test_the_plan_names_descendants_archives_and_stores() -> None:
    threads = ("t", *(f"t/a\x1b-{number:02}" for number in range(22)))
    executions = {ExecutionKey(id, "r1"): id == "t" for id in (*threads, "t/archive/1-d")}
    lines = plan_lines("t", Belongings(threads, ("t/archive/1-d",), executions), profiles=True)
    assert lines[:2] == ["thread t will be deleted: 24 executions, 1 of them open", r"  with       t/a\u001b-00"]
    assert lines[21:] == [
        "  with       2 more sub-agents and tasks",
        "  with       1 archive",
        "  with       payloads stored outside history",
        "  with       profiles",
    ]


def test_the_plan_for_a_thread_that_does_not_exist_says_so() -> None:
    assert plan_lines("t", Belongings(("t",), (), {}), profiles=False) == [
        "thread t does not exist; payloads stored for it will be deleted, if there are any"
    ]


def test_the_receipt_counts_what_was_deleted_and_names_what_was_not() -> None:
    done = DeleteReceipt(
        thread_id="t", found=True, threads=("t",), archives=("t/archive/1-d",), executions=3, payloads=2
    )
    assert receipt_lines(done) == ["thread t is deleted: 3 executions, 1 thread, 1 archive, 2 stored payloads"]
    denied = NotDeleted(id="t/a-1", reason="Temporal rejected the call")
    partly = done.model_copy(update={"profiles": 1, "remaining": (denied,)})
    assert receipt_lines(partly) == [
        "thread t is not completely deleted: 3 executions, 1 thread, 1 archive, 2 stored payloads, 1 profile",
        "  remaining  t/a-1: Temporal rejected the call",
    ]
    assert receipt_lines(DeleteReceipt(thread_id="t", found=False)) == ["thread t does not exist: nothing was deleted"]
    failed = DeleteReceipt(thread_id="t", found=True, remaining=(denied,))
    assert receipt_lines(failed)[0] == "thread t is not deleted"
