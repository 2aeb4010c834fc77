"""Which users a thread knows to have written to it, through everything that continues it."""

import pytest

from tests.loop.children import PARENT, agent_message, spawn_call
from tests.loop.driving import THREAD, Driver, after_continue_as_new, asks, input_message, says, snapshot_of
from wakeful.contract.carryover import Carryover
from wakeful.contract.messages import InputMessage
from wakeful.contract.requests import Fork, RunRequest
from wakeful.contract.runs import OnBusy, ThreadMode
from wakeful.contract.settings import Caller
from wakeful.contract.users import MAX_USERS, Users
from wakeful.loop.machine.commands import StartChild
from wakeful.loop.machine.facts import EditRequested, MailReceived, MessagesSubmitted, WithdrawalRequested
from wakeful.loop.thread.continue_as_new import pack, unpack
from wakeful.loop.thread.opening import opened
from wakeful.loop.thread.views import carryover, status_view

OF_ANN = THREAD.model_copy(update={"user": "ann"})
WOKEN = RunRequest(agent_id="assistant", mode=ThreadMode.THREAD, restore_from="r1")
FORK = RunRequest(agent_id="assistant", fork=Fork(thread_id="t0", run_id="r0", step=1, messages=2), input=())


def sent(id: str, user: str | None, on_busy: OnBusy = OnBusy.ENQUEUE) -> MessagesSubmitted:
    return MessagesSubmitted((input_message(id),), on_busy, caller=Caller(user=user))


def of_ann_and_bob() -> Driver:
    driver = Driver(request=OF_ANN)
    driver.feed(sent("m1", "bob"), sent("m2", None), sent("m3", "ann"))
    return driver


def test_users_are_those_of_the_request_and_of_every_accepted_message() -> None:
    view = status_view(of_ann_and_bob().thread)
    assert (view.users, view.more_users) == (("ann", "bob"), False)


def test_who_only_sent_what_was_refused_is_no_user_of_the_thread() -> None:
    driver = Driver(request=OF_ANN)
    driver.feed(sent("m1", "bob", OnBusy.REJECT))
    driver.feed(MessagesSubmitted((input_message("m2"),), caller=Caller(user="eve", tenant="beta")))
    assert driver.thread.users == Users(names=("ann",))


def test_mail_adds_no_user() -> None:
    driver = Driver(request=OF_ANN)
    driver.feed(MailReceived(agent_message()))
    assert driver.thread.users == Users(names=("ann",))


def test_what_is_undone_or_withdrawn_was_written_nevertheless() -> None:
    driver = Driver(request=OF_ANN)
    driver.feed(sent("m1", "bob"), WithdrawalRequested(("m1",), "x1"), sent("m2", "eve", OnBusy.ROLLBACK))
    driver.cancel_in_flight()
    driver.feed(sent("m3", "joe", OnBusy.ROLLBACK))
    driver.cancel_in_flight()
    assert driver.thread.users == Users(names=("ann", "bob", "eve", "joe"))


def test_an_edited_message_keeps_the_user_of_its_sender() -> None:
    driver = Driver(request=OF_ANN)
    driver.feed(sent("m1", "bob"), EditRequested(InputMessage(content="Or not?", id="m1"), "x1"))
    assert [later.user for later in driver.thread.queued] == ["bob"]


def test_more_users_than_a_thread_knows_by_name_make_them_incomplete() -> None:
    driver = Driver(request=OF_ANN)
    driver.feed(*(sent(f"m{number}", f"u{number}") for number in range(MAX_USERS)))
    view = status_view(driver.thread)
    assert (view.users[0], len(view.users), view.more_users) == ("ann", MAX_USERS, True)


def test_users_survive_continue_as_new_and_a_wake() -> None:
    thread = of_ann_and_bob().thread
    assert after_continue_as_new(thread).users == thread.users
    woken = Driver(None, request=WOKEN.model_copy(update={"user": "eve"}), carryover=carryover(thread))
    assert woken.thread.users == Users(names=("ann", "bob", "eve"))


def test_a_fork_inherits_the_users_of_what_it_inherits() -> None:
    driver = Driver(request=OF_ANN)
    driver.model(says("Hi."))
    (point,) = driver.last.fork_points
    driver.feed(sent("m1", "bob"))
    fork = FORK.model_copy(update={"user": "eve"})
    assert Driver(request=fork, carryover=point.carryover).thread.users == Users(names=("ann", "eve"))
    ended = carryover(driver.thread).for_fork()
    assert Driver(request=FORK, carryover=ended).thread.users == Users(names=("ann", "bob"))


def test_a_sub_agent_has_the_user_for_whom_its_parent_acts() -> None:
    driver = Driver(PARENT, request=OF_ANN)
    driver.model(asks(spawn_call("c1")))
    (start,) = driver.commands_of(StartChild)
    assert Driver(None, request=start.request).thread.users == Users(names=("ann",))


@pytest.mark.parametrize("continuing", [WOKEN, FORK])
def test_users_are_not_known_while_a_thread_is_restored(continuing: RunRequest) -> None:
    assert opened(continuing, thread_id="t1", run_id="r2").users == Users(more=True)


@pytest.mark.parametrize("continuing", [WOKEN, FORK])
def test_what_an_older_release_passed_on_leaves_the_first_users_unknown(continuing: RunRequest) -> None:
    request = continuing.model_copy(update={"user": "bob"})
    thread = Driver(None, request=request, carryover=Carryover()).thread
    assert thread.users == Users(names=("bob",), more=True)


@pytest.mark.parametrize("has_run", [True, False])
def test_a_snapshot_of_an_older_release_leaves_the_first_users_unknown(has_run: bool) -> None:
    packed = pack(snapshot_of(of_ann_and_bob().thread)) | {"format": 4}
    del packed["thread"]["users"]
    if not has_run:
        packed["thread"]["run"] = None
    assert unpack(packed).thread.users == Users(more=True)
