"""Cases of threads that depend on their archives: they are closed, woken, rolled back and deleted around them."""

from tests.simulation.cases import Case
from tests.simulation.checks import Violated
from tests.simulation.scenario import Call, Scenario, scenario_of
from tests.simulation.schedule import ask, calm_down
from tests.simulation.sizes import carrying
from tests.simulation.workload import TENANT
from wakeful.contract import names
from wakeful.contract.runs import ThreadMode

ASK: Call = ("ask", {"topic": "plain"})
LOOK: Call = ("look", {"number": 10**15})

SMALL = 500
"""So few bytes are passed on that a few calls are archived."""

BUSY_EVENTS = 30
"""The history budget of a thread that says more than it can archive meanwhile."""

THREAD = ThreadMode.THREAD


def expect(scenario: Scenario, *texts: str, thread_id: str = "t1") -> None:
    """Check what a reader gets of a thread."""
    read = [message.text for message in ask(scenario.result, scenario.world.people.client.transcript(thread_id))]
    if read != list(texts):
        raise Violated(f"{thread_id} has the conversation {read}")


def open_archives(scenario: Scenario) -> list[str]:
    return [each.workflow_id for each in scenario.world.server.open if each.workflow_type == names.WORKFLOW_ARCHIVE]


def close(scenario: Scenario) -> None:
    scenario.move("close t1")
    scenario.go()


def delete_closed(scenario: Scenario) -> None:
    """The retention of everything that is closed ends, and the caches of the worker with it."""
    server = scenario.world.server
    for execution in server.executions:
        if not execution.is_open:
            server.delete(execution)
    scenario.move("kill")


def wake_without_predecessor(scenario: Scenario, number: int) -> None:
    """Wake the thread; its closed execution is deleted before the new one is restored."""
    scenario.move(f"send t1 enqueue {number}")
    scenario.go_until("activity t1")
    delete_closed(scenario)
    scenario.go()


def rolled_back_into_an_archive() -> None:
    """A rollback removes archived messages; before anything is archived again, the thread is terminated and woken."""
    with carrying(SMALL), scenario_of("plain", [], *[[LOOK]] * 6, [ASK], events=50, mode=THREAD) as scenario:
        scenario.go()
        scenario.move("send t1 enqueue 1")
        scenario.go()
        suspended = scenario.name
        scenario.move("send t1 rollback 2")
        scenario.go()
        assert scenario.name == suspended  # it has not continued as new since, which would have cut the segments
        expect(scenario, "hello t1", "done", "message 2", "done")
        scenario.move("terminate t1", "send t1 enqueue 3")
        scenario.go()
        expect(scenario, "hello t1", "done", "message 2", "done", "message 3", "done")
        scenario.end()


def deleted_before_it_is_restored() -> None:
    """The retention of a closed thread ends between the message that wakes it and its restore."""
    with scenario_of("plain", mode=THREAD) as scenario:
        scenario.go()
        close(scenario)
        wake_without_predecessor(scenario, 1)
        expect(scenario, "hello t1", "done", "message 1", "done")
        scenario.end()


def terminated_and_deleted_before_it_is_restored() -> None:
    """The same after the thread was woken and terminated: what it had said when it closed is left, and it says so."""
    with scenario_of("plain", mode=THREAD) as scenario:
        scenario.go()
        close(scenario)
        scenario.move("send t1 enqueue 1")
        scenario.go()
        scenario.move("terminate t1")
        wake_without_predecessor(scenario, 2)
        expect(scenario, "hello t1", "done", "message 2", "done")
        status = ask(scenario.result, scenario.world.people.client.status("t1"))
        if not any("is lost" in refusal.reason for refusal in status.refusals):
            raise Violated("t1 does not say that a part of it is lost")
        scenario.end()


def started_over() -> None:
    """A thread is started over, closed and woken from its archives alone: the conversation before is left behind."""
    with scenario_of("plain", mode=THREAD) as scenario:
        people = scenario.world.people
        scenario.go()
        close(scenario)
        scenario.move("send t1 enqueue 1")
        scenario.go()
        close(scenario)
        people.disturbed.add("t1")  # its numbers begin anew
        ask(
            scenario.result,
            people.client.start("plain", "anew", thread_id="t1", mode=THREAD, again=True, tenant=TENANT),
        )
        if left := open_archives(scenario):
            raise Violated(f"t1 is started over, and still has the archives {left}")
        scenario.go()
        close(scenario)
        wake_without_predecessor(scenario, 2)
        expect(scenario, "anew", "done", "message 2", "done")
        scenario.end()


def message_after_the_last_act() -> None:
    """A plain message reaches a closing thread after it was archived and before its last workflow task."""
    with scenario_of("plain", mode=THREAD) as scenario:
        scenario.go()
        scenario.move("close t1")
        scenario.go_through("end t1", "archive-1")
        scenario.move("submit t1 enqueue 1")
        scenario.go()
        scenario.move("send t1 enqueue 2")
        scenario.go()
        expect(scenario, "hello t1", "done", "plain message 1", "done", "message 2", "done")
        scenario.end()


def withdrawn_after_the_last_act() -> None:
    """A message reaches a sub-agent whose run has ended, and is withdrawn once it was archived for the next run."""
    with scenario_of("lead", [("agent_run_helper", {"prompt": "do"})]) as scenario:
        scenario.go_until("transfer signalled t1 child_settled")
        (helper,) = (id for id in scenario.world.server.current if id.startswith("t1/helper"))
        scenario.move("transfer signalled t1 child_settled", f"send {helper} enqueue 1")
        scenario.go_through(f"end {helper}", "archive-1")
        scenario.move("withdraw 0 1")
        scenario.go()
        scenario.end()


def replaced_last_act() -> None:
    """The archive of a last act that another one replaces is deleted; the woken thread does not need it."""
    with scenario_of("plain", mode=THREAD) as scenario:
        scenario.go()
        scenario.move("close t1")
        scenario.go_through("end t1", "archive-1")
        scenario.move("submit t1 enqueue 1")
        scenario.go()
        assert open_archives(scenario) == ["t1/archive/last"]
        scenario.move("send t1 enqueue 2")
        scenario.go()
        delete_closed(scenario)
        expect(scenario, "hello t1", "done", "plain message 1", "done", "message 2", "done")
        scenario.end()


def sent_while_it_closes() -> None:
    """A client sends a message to a thread that is closing: it waits, and wakes the thread."""
    with scenario_of("plain", mode=THREAD) as scenario:
        scenario.go()
        scenario.move("close t1", "task t1", "report t1", "send t1 enqueue 1")
        calm_down(scenario.result)
        expect(scenario, "hello t1", "done", "message 1", "done")
        scenario.end()


def closed_while_it_is_sent() -> None:
    """A thread begins to close between a client's look at it and the client's message: the client wakes it."""
    with scenario_of("plain", mode=THREAD) as scenario:
        scenario.go()
        scenario.move("slow network", "send t1 enqueue 1", "rpc person describe")
        scenario.move("close t1", "task t1", "report t1", "rpc person signal", "fast network")
        calm_down(scenario.result)
        expect(scenario, "hello t1", "done", "message 1", "done")
        scenario.end()


def forked_from_a_deleted_thread() -> None:
    """A fork shares an archived past with another thread, which is deleted with all its archives."""
    with carrying(SMALL), scenario_of("plain", *[[LOOK]] * 6, events=30, mode=THREAD) as scenario:
        client, server = scenario.world.people.client, scenario.world.server
        scenario.go()
        shared = [message.text for message in ask(scenario.result, client.transcript("t1"))][:11]
        ask(scenario.result, client.fork("t1", at=5, message="instead", new_thread_id="f1", mode=THREAD))
        scenario.go()
        scenario.world.people.disturbed.add("t1")
        for execution in server.open:
            if execution.workflow_id.startswith("t1"):
                server.terminate(execution, "deleted")
        delete_closed(scenario)
        ask(scenario.result, client.send("f1", "still there?"))
        scenario.go()
        expect(scenario, *shared, "instead", "done", "still there?", "done", thread_id="f1")
        scenario.end()


def slower_to_archive_than_to_run() -> None:
    """A chat in which two more messages are answered while each archive is written."""
    with carrying(SMALL), scenario_of("plain", events=BUSY_EVENTS, mode=THREAD) as scenario:
        scenario.go()
        for number in range(1, 13):
            scenario.move(f"send t1 enqueue {number}")
            scenario.go_without("archive-")
            archiving = [move.key.split(" ")[2] for move in scenario.world.due() if " archive-" in move.key]
            if archiving and number % 2 == 0:
                scenario.go_through("end t1", archiving[0])
        scenario.go()
        lengths = [len(each.history) for each in scenario.world.server.executions if each.workflow_id == "t1"]
        if max(lengths) > 5 * BUSY_EVENTS:
            raise Violated(f"t1 has not continued as new in time: {lengths}")
        scenario.end()


def archived_in_vain() -> None:
    """What an archive has to hold is rolled back while it is written, and the next run waits for its end."""
    with carrying(SMALL), scenario_of("plain", *[[LOOK]] * 3, [ASK], events=BUSY_EVENTS, mode=THREAD) as scenario:
        scenario.go_without("archive-")
        scenario.move(*["junk t1 0"] * 2 * BUSY_EVENTS, "send t1 rollback 1")
        scenario.go_without("archive-")
        assert scenario.world.people.stage_of(scenario.world.server.current["t1"]) == "resolving"
        scenario.go()
        expect(scenario, "message 1", "done")
        scenario.end()


def terminated_twice() -> None:
    """A thread is terminated during its calls and woken, and terminated again before it has said anything more."""
    with carrying(3 * SMALL), scenario_of("plain", [LOOK, LOOK], mode=THREAD) as scenario:
        scenario.go_without("tool-")
        scenario.move("terminate t1", "send t1 enqueue 1")
        scenario.go_without("resolve-2")
        scenario.move("terminate t1", "send t1 enqueue 2")
        scenario.go()
        close(scenario)
        scenario.end()


ARCHIVE_CASES = (
    Case(
        rolled_back_into_an_archive,
        "The woken thread had the messages again that were rolled back.",
        "rollback undone",
        "Violated: t1 has the conversation ['hello t1', ",
    ),
    Case(
        deleted_before_it_is_restored,
        "The woken thread waited for a closed execution that the server no longer has.",
        "restore needs its predecessor",
        "AssertionError: there is no end",
    ),
    Case(
        terminated_twice,
        "The results of the interrupted calls were neither archived nor passed on, and the thread could not close.",
        "results after an archive",
        "AssertionError: there is no end",
    ),
    Case(
        terminated_and_deleted_before_it_is_restored,
        "The woken thread continued without its newest messages, and showed no sign of it.",
        "loss not noticed",
        "Violated: t1 does not say that a part of it is lost",
    ),
    Case(
        started_over,
        "The archives from before were kept for as long as the new thread, which does not need them.",
        "archives left behind",
        "Violated: t1 is started over, and still has the archives ['t1/archive/last']",
    ),
    Case(
        message_after_the_last_act,
        "The message was in no archive, and the woken thread had lost it.",
        "last act too early",
        "Violated: t1 has the conversation ['hello t1', 'done', 'message 2'",
    ),
    Case(
        withdrawn_after_the_last_act,
        "The archive woke the thread, and its run read the message.",
        "last act overtaken",
        "Violated: t1/helper",
    ),
    Case(
        replaced_last_act,
        "The woken thread was restored from an archive that had been written too early, and lost a message.",
        "earlier last archive kept",
        "Violated: t1 has the conversation ['hello t1', 'done', 'message 2'",
    ),
    Case(
        forked_from_a_deleted_thread,
        "The fork could not be read any more, and its model was not called.",
        "fork shares archives",
        "Violated: f1 has the conversation",
    ),
    Case(
        sent_while_it_closes,
        "The message waited in the closed thread for the next one.",
        "closing not noticed",
        "Violated: t1 has the conversation ['hello t1', 'done']",
    ),
    Case(
        closed_while_it_is_sent,
        "The message waited in the closed thread for the next one.",
        "unread not noticed",
        "Violated: t1 has the conversation ['hello t1', 'done']",
    ),
    Case(
        slower_to_archive_than_to_run,
        "The thread never continued as new: whenever an archive was written, there was enough for the next one.",
        "no wait for an archive",
        "Violated: t1 has not continued as new in time",
    ),
    Case(
        archived_in_vain,
        "The run waited for ever: an archive that came to nothing did not end the wait.",
        "held commands forgotten",
        "Violated: t1 has the conversation",
    ),
)
