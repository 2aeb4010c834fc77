"""Inference overrides: they apply to every inference of one run, and to no other run."""

import pytest

from tests.loop.driving import REQUEST, THREAD, Driver, after_continue_as_new, asks, call, idle, ok, says
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.outcomes import Outcome, OutcomeStatus
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import OnBusy
from wakeful.loop.machine.commands import Infer
from wakeful.loop.machine.facts import WorkCancelled
from wakeful.loop.thread.continue_as_new import pending_commands
from wakeful.loop.thread.views import status_view

BRIEF = InferenceOverrides(max_tokens=9)
OTHER = InferenceOverrides(upstream_model="model-2")
REFUSED = "overrides apply to the run that messages start, but the run under way reads these"


def overrides_sent(driver: Driver) -> list[InferenceOverrides | None]:
    return [command.overrides for command in driver.commands if isinstance(command, Infer)]


def test_every_inference_of_the_run_has_its_overrides_and_the_next_run_has_none() -> None:
    """B-102"""
    driver = Driver(request=THREAD.model_copy(update={"overrides": BRIEF}))
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    driver.model(says("Sunny."))
    driver.submit("m1")
    driver.resolve()
    assert overrides_sent(driver) == [BRIEF, BRIEF, None]


def test_an_inference_of_a_run_without_overrides_has_none() -> None:
    assert overrides_sent(Driver()) == [None]


@pytest.mark.parametrize("on_busy", OnBusy)
def test_a_message_that_starts_a_run_can_have_overrides(on_busy: OnBusy) -> None:
    driver = idle()
    driver.submit("m1", on_busy=on_busy, overrides=BRIEF)
    driver.resolve()
    assert (overrides_sent(driver), driver.refusal_reasons) == ([None, BRIEF], [])


def test_the_overrides_of_a_queued_message_apply_to_the_run_it_starts() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", overrides=BRIEF)
    driver.submit("m2", overrides=OTHER)
    driver.submit("m3")
    for text in ("One.", "Two.", "Three."):
        driver.model(says(text))
        driver.resolve()
    assert overrides_sent(driver) == [None, BRIEF, OTHER, None]


@pytest.mark.parametrize("on_busy", [OnBusy.INTERRUPT, OnBusy.ROLLBACK])
@pytest.mark.parametrize("request_", [REQUEST, THREAD], ids=["run", "thread"])
def test_an_interrupt_can_have_overrides(request_: RunRequest, on_busy: OnBusy) -> None:
    driver = Driver(request=request_)
    driver.submit("m1", on_busy=on_busy, overrides=BRIEF)
    driver.feed(WorkCancelled("infer-1"))
    driver.resolve()
    assert overrides_sent(driver) == [None, BRIEF]


@pytest.mark.parametrize("on_busy", [OnBusy.STEER, OnBusy.ENQUEUE])
def test_a_message_that_joins_a_run_cannot_have_overrides(on_busy: OnBusy) -> None:
    driver = Driver()
    before = driver.thread
    driver.submit("m1", on_busy=on_busy, overrides=BRIEF)
    assert driver.refusal_reasons == [REFUSED]
    assert (driver.thread.queued, driver.thread.steering) == ((), ())
    refused = Outcome(id="m1", status=OutcomeStatus.REFUSED, reason=REFUSED)
    assert driver.thread.outcomes == (*before.outcomes, refused)
    driver.submit("m1", on_busy=on_busy)
    driver.model(says("Hello!"))
    assert (driver.texts, overrides_sent(driver)) == (["Hello", "Hello!", "And then?"], [None, None])


def test_a_steering_message_cannot_have_overrides() -> None:
    driver = Driver(request=THREAD)
    driver.submit("m1", on_busy=OnBusy.STEER, overrides=BRIEF)
    assert (driver.refusal_reasons, driver.last.events[0].event_type) == ([REFUSED], "signal_refused")


def test_overrides_survive_continue_as_new() -> None:
    driver = Driver(request=THREAD.model_copy(update={"overrides": BRIEF}))
    driver.submit("m1", overrides=OTHER)
    after = after_continue_as_new(driver.thread)
    assert [command.overrides for command in pending_commands(after) if isinstance(command, Infer)] == [BRIEF]
    assert after.queued[0].overrides == OTHER


def test_the_status_shows_the_overridden_model() -> None:
    """B-104"""
    driver = Driver(request=REQUEST.model_copy(update={"overrides": OTHER}))
    assert (driver.inference().model, status_view(driver.thread).doing) == ("model-2", "calling model-2")
    brief = Driver(request=REQUEST.model_copy(update={"overrides": BRIEF}))
    assert (Driver().inference().model, brief.inference().model) == ("model-1", "model-1")
