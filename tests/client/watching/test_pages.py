"""What a run tells of its events is what its workflow tasks have made, and nothing that a query has made of it."""

from wakeful.client.watching.watcher import firm
from wakeful.contract.events import EventRecord, StepEnd
from wakeful.contract.requests import PageRequest, RunRequest
from wakeful.contract.views import EventsPage
from wakeful.loop.machine.advance import begin
from wakeful_workflows.queries import EventLog, events_page

BEGUN = begin(RunRequest(agent_id="tester", input="hello"), thread_id="t", run_id="r")


def page_after(log: EventLog, after: int) -> EventsPage:
    return events_page(BEGUN.thread, log, PageRequest(after=after), earlier=None)


def test_events_that_came_early_are_not_told() -> None:
    log = EventLog()
    log.append((StepEnd(), StepEnd()), BEGUN.thread.identity, at=1)
    assert page_after(log, 1).in_flight == tuple(BEGUN.thread.in_flight)
    log.append((StepEnd(),), BEGUN.thread.identity, at=1, early=True)
    page = page_after(log, 1)
    assert ([record.seq for record in page.events], page.last, page.in_flight) == ([2], 2, ())


def test_who_asks_beyond_the_newest_event_is_told_which_it_is() -> None:
    log = EventLog()
    log.append((StepEnd(),), BEGUN.thread.identity, at=1)
    assert page_after(log, 40).last == 1


def test_what_no_completed_task_has_made_is_read_again_later() -> None:
    records = tuple(EventRecord(seq=n, at=n, run_id="r", agent_id="a", event=StepEnd()) for n in (5, 6, 7))
    page = EventsPage(events=records, last=7, done=True, in_flight=("infer-1",))
    assert firm(page, until=7) == page
    assert firm(page, until=5) == EventsPage(events=records[:1], last=5, done=False)
