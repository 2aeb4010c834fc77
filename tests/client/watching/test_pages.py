"""A page has the events that workflow tasks have recorded."""

from wakeful.client.watching.watcher import confirmed
from wakeful.contract.events import EventRecord, StepEnd
from wakeful.contract.requests import PageRequest, RunRequest
from wakeful.contract.views import EventsPage
from wakeful.loop.thread.opening import begin
from wakeful_workflows.queries import EventLog, events_page

STARTED = begin(RunRequest(agent_id="tester", input="hello"), thread_id="t", run_id="r")


def page_after(log: EventLog, after: int) -> EventsPage:
    return events_page(STARTED.thread, log, PageRequest(after=after), segments=())


def test_the_final_page_names_the_activities_that_the_run_waits_for() -> None:
    log = EventLog()
    log.append((StepEnd(), StepEnd()), STARTED.thread.identity, at=1)
    page = page_after(log, 1)
    assert ([record.seq for record in page.events], page.in_flight) == ([2], tuple(STARTED.thread.in_flight))


def test_a_page_beyond_the_newest_event_says_which_is_the_newest() -> None:
    log = EventLog()
    log.append((StepEnd(),), STARTED.thread.identity, at=1)
    assert page_after(log, 40).last == 1


def test_events_that_no_completed_workflow_task_has_recorded_are_read_again_later() -> None:
    records = tuple(EventRecord(seq=n, at=n, run_id="r", agent_id="a", event=StepEnd()) for n in (5, 6, 7))
    page = EventsPage(events=records, last=7, done=True, in_flight=("infer-1",))
    assert confirmed(page, until=7) == page
    assert confirmed(page, until=5) == EventsPage(events=records[:1], last=5, done=False)
