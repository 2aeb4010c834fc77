"""Messages between agents: how they are sent, read, returned, kept if undelivered, and sent again."""

import pytest
from pydantic import JsonValue

from tests.loop.children import (
    PARALLEL_PARENT,
    PARENT,
    agent_message,
    background_call,
    mail_received,
    make_parent,
    send_call,
    spawn_call,
    start_without_ids,
    tool_settled,
    with_tasks,
)
from tests.loop.driving import (
    NO_INPUT,
    THREAD,
    Driver,
    after_continue_as_new,
    asks,
    asks_gated,
    call,
    done,
    idle,
    make_ticket,
    ok,
    resume,
    says,
    snapshot_of,
    thread_id_of,
)
from wakeful.contract.agents import ToolMode
from wakeful.contract.base import replace
from wakeful.contract.gates import Suspend
from wakeful.contract.mail import (
    AGENT_MESSAGE_LIMIT,
    AgentMessage,
    Recipients,
    ReturnedMessage,
    Sender,
    UndeliveredMessage,
)
from wakeful.contract.messages import Visibility
from wakeful.contract.names import SIGNAL_DELIVER, SIGNAL_MAIL_RETURNED
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Cancelled, Origin, RunIdentity, RunMode, TaskRef
from wakeful.contract.subagents import SubagentContext
from wakeful.loop.machine.commands import CancelWork, DeliverMessage, SendSignal
from wakeful.loop.machine.facts import (
    ChildIdAssigned,
    Delivered,
    MailReceived,
    MailReturned,
    UndeliveredRequested,
    WorkCancelled,
    WorkFailed,
)
from wakeful.loop.machine.revisions import LATE_MESSAGES, UNRETURNED_MAIL_WAITS
from wakeful.loop.machine.stages import Cancelling, Resolving
from wakeful.loop.machine.state import Advance
from wakeful.loop.subagents.mail import KEPT_UNDELIVERED
from wakeful.loop.thread.continue_as_new import pack, pending_commands, size_of
from wakeful.loop.thread.views import CONTENT_LENGTH, carryover, status_view
from wakeful.registry.runtime_tools import send_message_tool

TO_AGENT: JsonValue = {"relation": "agent", "thread_id": "t5"}
TO_CHILD: JsonValue = {"relation": "child", "name": "scout"}
TO_PARENT: JsonValue = {"relation": "parent"}
SUB_AGENT = RunRequest(agent_id="assistant", input="Hello", parent_thread_id="t0", origin=Origin.SUBAGENT)
TASK = SubagentContext(path=("t0",), work_id="bg_3", task_id="bg_3", name="scout")
UNNAMED = SubagentContext(path=("t0",), work_id="bg_3", task_id="bg_3")
WITHIN_A_TASK = SubagentContext(
    path=("t9", "t0"),
    work_id="delegate-c9",
    within=TaskRef(task_id="bg_3", thread_id="t0", owner_thread_id="t9", name="scout"),
)


def sending(to: JsonValue = TO_AGENT, *, request: RunRequest | None = None) -> Driver:
    """A run whose call `c2` sends a message."""
    driver = Driver(PARENT, request=request) if request else Driver(PARENT)
    driver.model(asks(spawn_call("c1", "scout"), background_call("c0")))
    driver.model(asks(send_call("c2", to)))
    return driver


def failed(error: str) -> JsonValue:
    return {"message_id": "", "status": "failed", "error": error}


def message_of(driver: Driver) -> AgentMessage:
    (sent,) = [command for command in driver.commands if isinstance(command, DeliverMessage | SendSignal)]
    message = sent.message if isinstance(sent, DeliverMessage) else sent.payload
    assert isinstance(message, AgentMessage)
    return message


def with_undelivered(count: int = 1) -> Driver:
    """A run with undelivered messages; an inference is in flight."""
    driver = Driver(PARENT)
    for number in range(count):
        driver.model(asks(send_call(f"c{number}", TO_AGENT, f"number {number}")))
        driver.feed(WorkFailed(f"send-c{number}", "recipient_not_found"))
    return driver


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (None, "missing 'to'"),
        ({"message": "Hi"}, "missing 'to'"),
        ({"to": "parent", "message": "Hi"}, "missing 'to'"),
        ({"to": {}, "message": "Hi"}, "missing 'to.relation'"),
        ({"to": {"relation": 4}, "message": "Hi"}, "missing 'to.relation'"),
        ({"to": {"relation": "child"}, "message": "Hi"}, "child requires 'name'"),
        ({"to": {"relation": "agent"}, "message": "Hi"}, "agent requires 'thread_id'"),
        ({"to": {"relation": "agent", "thread_id": 5}, "message": "Hi"}, "agent requires 'thread_id'"),
        ({"to": {"relation": "sibling"}, "message": "Hi"}, "unknown relation 'sibling'"),
        ({"to": {"relation": "parent"}}, "missing 'message'"),
        ({"to": {"relation": "parent"}, "message": None}, "missing 'message'"),
        (
            {"to": {"relation": "parent"}, "message": "x" * (AGENT_MESSAGE_LIMIT + 1)},
            "the message has 200,001 characters; at most 200,000 are allowed",
        ),
    ],
)
def test_an_invalid_message_is_an_error_and_is_not_sent(arguments: JsonValue, error: str) -> None:
    """B-560"""
    driver = Driver(PARENT, request=SUB_AGENT)
    driver.model(asks(call("c1", "send_message", arguments)))
    assert driver.tool_results == [("c1", f"Invalid arguments: {error}")]
    assert driver.commands_of(DeliverMessage) == []


@pytest.mark.parametrize(
    ("to", "error"),
    [
        (TO_PARENT, "recipient_unavailable"),
        ({"relation": "child", "name": "unknown"}, "recipient_not_found"),
        ({"relation": "child", "name": "bg_1"}, "recipient_unavailable"),
        ({"relation": "agent", "thread_id": ""}, "recipient_not_found"),
    ],
    ids=["no parent", "no such child", "a tool has no inbox", "no thread"],
)
def test_a_message_without_a_recipient_has_a_failed_receipt(to: JsonValue, error: str) -> None:
    """B-561, B-563, B-564, B-565"""
    driver = sending(to)
    assert driver.json_result("c2") == failed(error)
    assert (driver.commands_of(DeliverMessage), driver.commands_of(SendSignal), driver.thread.mail.undelivered) == (
        [],
        [],
        (),
    )


def writing(to: JsonValue, *recipients: Recipients) -> Driver:
    """A sub-agent of `t9/lead-1`, in the tree of `t9`, that may write to these and has a task `scout`; it writes."""
    tools = tuple(tool for tool in PARENT.tools if tool.id != "send_message")
    agent = PARENT.model_copy(update={"tools": (*tools, send_message_tool(*recipients))})
    context = SubagentContext(path=("t9", "t9/lead-1"), work_id="bg_3", task_id="bg_3")
    driver = Driver(agent, request=SUB_AGENT.model_copy(update={"parent_thread_id": "t9/lead-1", "subagent": context}))
    driver.model(asks(spawn_call("c1", "scout")))
    driver.model(asks(send_call("c2", to)))
    return driver


@pytest.mark.parametrize(
    ("to", "recipients"),
    [
        (TO_PARENT, ("parent",)),
        (TO_PARENT, ("tree",)),
        (TO_CHILD, ("children",)),
        (TO_CHILD, ("tree",)),
        ({"relation": "agent", "thread_id": "t9/lead-1"}, ("parent",)),
        ({"relation": "agent", "thread_id": thread_id_of("bg_0")}, ("parent", "children")),
        ({"relation": "agent", "thread_id": "t1/old-1"}, ("children",)),
        ({"relation": "agent", "thread_id": "t9/lead-1/b-2"}, ("siblings",)),
        ({"relation": "agent", "thread_id": "t9"}, ("tree",)),
        ({"relation": "agent", "thread_id": "t9/b-1/c-2"}, ("tree",)),
        ({"relation": "agent", "thread_id": thread_id_of("bg_0")}, ("tree",)),
        ({"relation": "agent", "thread_id": "t5", "agent_id": "clerk"}, ("any",)),
        ({"relation": "agent", "thread_id": "t5"}, ()),
    ],
)
def test_an_agent_writes_to_the_threads_that_it_may_write_to(to: JsonValue, recipients: tuple[Recipients, ...]) -> None:
    """B-571; a run that started before there was a choice may write to any thread."""
    assert message_of(writing(to, *recipients)).content == "Hurry!"


@pytest.mark.parametrize(
    ("to", "recipients", "whom", "needed"),
    [
        (TO_PARENT, ("children", "siblings"), "your parent", "parent"),
        (TO_CHILD, ("siblings",), "a task of yours", "children"),
        (TO_AGENT, ("tree",), "thread 't5'", "any"),
        ({"relation": "agent", "thread_id": "t9x"}, ("tree",), "thread 't9x'", "any"),
        ({"relation": "agent", "thread_id": "t9/b-1"}, ("siblings",), "thread 't9/b-1'", "any"),
        (
            {"relation": "agent", "thread_id": "t9/new", "agent_id": "clerk"},
            ("tree",),
            "a thread that the message starts with agent 'clerk' (leave out 'agent_id')",
            "any",
        ),
    ],
)
def test_a_message_to_another_thread_is_refused_with_what_would_allow_it(
    to: JsonValue, recipients: tuple[Recipients, ...], whom: str, needed: str
) -> None:
    """B-571"""
    driver = writing(to, *recipients)
    ((_, refused),) = [result for result in driver.tool_results if result[0] == "c2"]
    assert refused.startswith("Denied: the message was not sent: you may write to the ")
    assert f"and not to {whom}. Do not try again." in refused
    assert refused.endswith(f"the developer of agent 'assistant' has to add '{needed}' to its `messages`.")
    assert driver.commands_of(DeliverMessage) + driver.commands_of(SendSignal) == []


def test_an_agent_at_the_root_of_a_tree_writes_to_the_tree_only() -> None:
    """B-571"""
    tools = tuple(tool for tool in PARENT.tools if tool.id != "send_message")
    driver = Driver(PARENT.model_copy(update={"tools": (*tools, send_message_tool("tree", "siblings"))}))
    driver.model(asks(send_call("c1", TO_AGENT), send_call("c2", {"relation": "agent", "thread_id": "t1/a-1/b-2"})))
    assert message_of(driver).recipient_thread_id == "t1/a-1/b-2"


def test_a_run_with_a_parent_run_but_no_parent_thread_cannot_message_its_parent() -> None:
    """B-565"""
    request = RunRequest(agent_id="assistant", input="Hello", parent_run_id="r0")
    assert sending(TO_PARENT, request=request).json_result("c2") == failed("recipient_unavailable")


def test_a_child_that_has_ended_is_not_found() -> None:
    """B-563"""
    driver = with_tasks(spawn_call("c1", "scout"))
    driver.feed(tool_settled("bg_0"))
    driver.model(asks(send_call("c2", TO_CHILD)))
    assert driver.json_result("c2") == failed("recipient_not_found")


def test_a_child_can_be_messaged_in_the_step_that_started_it() -> None:
    driver = Driver(PARENT)
    start_without_ids(driver, spawn_call("c1", "scout"), send_call("c2", TO_CHILD))
    assert not any(isinstance(command, SendSignal) for command in driver.commands)
    driver.feed(ChildIdAssigned("bg_0", "t1/bg_0"))
    assert [command.thread_id for command in driver.last.commands if isinstance(command, SendSignal)] == ["t1/bg_0"]


@pytest.mark.parametrize("name", ["scout", "bg_0"])
def test_a_message_to_a_child_is_signalled_directly(name: str) -> None:
    """B-562, B-563, B-564"""
    driver = sending({"relation": "child", "name": name})
    message = message_of(driver)
    assert driver.last.commands == (SendSignal("send-c2", "t1/bg_0", SIGNAL_DELIVER, message),)
    assert message == AgentMessage(
        message_id=message.message_id,
        sender=Sender(agent_id="assistant", thread_id="t1"),
        content="Hurry!",
        relation="child",
        recipient_thread_id="t1/bg_0",
        task_id="bg_0",
    )
    driver.feed(Delivered("send-c2"))
    assert driver.json_result("c2") == {"message_id": message.message_id, "status": "accepted"}


def test_a_message_to_a_parent_is_delivered_by_an_activity_that_can_wake_it() -> None:
    """B-562, B-565"""
    driver = sending(TO_PARENT, request=SUB_AGENT)
    message = message_of(driver)
    assert driver.last.commands == (DeliverMessage("send-c2", message),)
    assert (message.relation, message.recipient_thread_id, message.recipient_agent_id) == ("parent", "t0", None)
    driver.feed(Delivered("send-c2"))
    assert driver.json_result("c2") == {"message_id": message.message_id, "status": "accepted"}


@pytest.mark.parametrize(
    ("context", "to", "sender"),
    [
        (TASK, TO_PARENT, Sender(agent_id="assistant", thread_id="t1", task_id="bg_3", name="scout")),
        (UNNAMED, TO_PARENT, Sender(agent_id="assistant", thread_id="t1", task_id="bg_3")),
        (TASK, TO_AGENT, Sender(agent_id="assistant", thread_id="t1")),
        (TASK, TO_CHILD, Sender(agent_id="assistant", thread_id="t1")),
        (WITHIN_A_TASK, TO_PARENT, Sender(agent_id="assistant", thread_id="t1")),
    ],
    ids=["to its parent", "without a name", "to another agent", "to its own child", "a delegate of a task"],
)
def test_only_a_message_to_its_parent_names_the_task_that_sends_it(
    context: SubagentContext, to: JsonValue, sender: Sender
) -> None:
    """B-565"""
    driver = sending(to, request=SUB_AGENT.model_copy(update={"subagent": context}))
    assert message_of(driver).sender == sender


def test_the_parent_reads_which_of_its_tasks_sent_a_message() -> None:
    """B-565"""
    child = sending(TO_PARENT, request=SUB_AGENT.model_copy(update={"subagent": TASK}))
    owner = idle()
    owner.feed(MailReceived(message_of(child)))
    head = '<agent-message from="assistant" thread_id="t1" task_id="bg_3" name="scout">'
    assert owner.texts[-1] == f"{head}\nHurry!\n</agent-message>"


@pytest.mark.parametrize(("agent_id", "named"), [(None, None), ("", None), ("writer", "writer"), (7, None)], ids=repr)
def test_another_thread_is_addressed_by_the_given_id(agent_id: JsonValue, named: str | None) -> None:
    """B-566"""
    driver = sending({"relation": "agent", "thread_id": " t5 ", "agent_id": agent_id})
    message = message_of(driver)
    assert (message.relation, message.recipient_thread_id, message.recipient_agent_id) == ("agent", " t5 ", named)
    assert after_continue_as_new(driver.thread) is not None


def test_an_empty_message_is_delivered() -> None:
    """B-560"""
    driver = Driver(PARENT)
    driver.model(asks(send_call("c1", TO_AGENT, "")))
    assert message_of(driver).content == ""


def test_a_message_has_a_unique_id_that_is_the_same_in_every_replay() -> None:
    """B-569, I-11"""
    first, again = message_of(sending()), message_of(sending())
    assert (first, first.message_id[:4]) == (again, "msg_")
    other = Driver(PARENT)
    other.model(asks(send_call("c3", TO_AGENT)))
    assert message_of(other).message_id != first.message_id


@pytest.mark.parametrize("mode", ToolMode)
def test_messages_are_sent_one_after_another_in_call_order(mode: ToolMode) -> None:
    driver = Driver(make_parent(mode))
    driver.model(asks(send_call("c1", TO_AGENT, "one"), send_call("c2", TO_AGENT, "two"), call("c3")))
    assert [sent.id for sent in driver.commands_of(DeliverMessage)] == ["send-c1"]
    assert len(driver.tool_commands("c3")) == (1 if mode is ToolMode.PARALLEL else 0)
    driver.feed(Delivered("send-c1"))
    assert [sent.message.content for sent in driver.commands_of(DeliverMessage)] == ["one", "two"]
    driver.feed(Delivered("send-c2"))
    driver.tool("c3", ok("sunny"))
    assert [call_id for call_id, _ in driver.tool_results] == ["c1", "c2", "c3"]


def test_messages_are_sent_one_after_another_in_a_gated_step_too() -> None:
    driver = Driver(PARALLEL_PARENT)
    verdict = Suspend(ticket=make_ticket("s1"))
    driver.model(asks_gated(send_call("c1", TO_AGENT), send_call("c2", TO_AGENT), call("c3"), c3=verdict))
    assert [sent.id for sent in driver.commands_of(DeliverMessage)] == ["send-c1"]
    driver.feed(Delivered("send-c1"), Delivered("send-c2"))
    driver.decide(resume("s1"))
    driver.tool("c3", ok("sunny"))
    assert [call_id for call_id, _ in driver.tool_results] == ["c1", "c2", "c3"]


def test_a_message_that_a_gate_suspended_is_sent_after_the_decision() -> None:
    driver = Driver(PARENT)
    driver.model(asks_gated(send_call("c1", TO_AGENT), c1=Suspend(ticket=make_ticket("s1"))))
    assert driver.commands_of(DeliverMessage) == []
    driver.decide(resume("s1"))
    driver.feed(Delivered("send-c1"))
    assert (len(driver.commands_of(DeliverMessage)), driver.event_types.count("tool_call_resumed")) == (1, 1)


@pytest.mark.parametrize(
    ("fact", "error"),
    [
        (WorkFailed("send-c2", "recipient_not_found"), "recipient_not_found"),
        (WorkFailed("send-c2", "transport_failed: no server"), "transport_failed: no server"),
        (WorkCancelled("send-c2"), "recipient_unavailable"),
    ],
    ids=["not found", "transport", "stopped"],
)
def test_a_message_that_cannot_be_delivered_is_kept(fact: WorkFailed, error: str) -> None:
    """B-561, B-568, I-11"""
    driver = sending()
    driver.feed(fact)
    assert driver.json_result("c2") == failed(error)
    undelivered_message = UndeliveredMessage(message=message_of(driver), error=error, at=driver.now)
    assert driver.thread.mail.undelivered == (undelivered_message,)
    assert status_view(driver.thread).undelivered == (undelivered_message,)
    assert carryover(driver.thread).undelivered == (undelivered_message,)


def test_an_undelivered_message_to_a_child_is_not_kept() -> None:
    """B-568"""
    driver = sending(TO_CHILD)
    driver.feed(WorkFailed("send-c2", "recipient_unavailable"))
    assert (driver.json_result("c2"), driver.thread.mail.undelivered) == (failed("recipient_unavailable"), ())


def test_a_thread_keeps_a_limited_number_of_undelivered_messages_and_each_once() -> None:
    driver = Driver(PARENT)
    for number in range(KEPT_UNDELIVERED + 5):
        driver.feed(MailReturned(agent_message(f"m{number}"), "recipient_unavailable"))
    driver.feed(MailReturned(agent_message("m50"), "recipient_not_found"))
    ids = [undelivered_message.message.message_id for undelivered_message in driver.thread.mail.undelivered]
    assert (len(ids), ids[0], ids[-1], ids.count("m50")) == (KEPT_UNDELIVERED, "m5", "m50", 1)


@pytest.mark.parametrize("text", ["x" * AGENT_MESSAGE_LIMIT, "漢" * AGENT_MESSAGE_LIMIT, "🦉" * AGENT_MESSAGE_LIMIT])
def test_long_undelivered_messages_are_dropped_oldest_first_so_that_the_snapshot_stays_small(text: str) -> None:
    driver = Driver(PARENT)
    for number in range(5):
        driver.feed(MailReturned(agent_message(f"m{number}", text), "recipient_unavailable"))
    assert [undelivered_message.message.message_id for undelivered_message in driver.thread.mail.undelivered] == ["m4"]
    assert [undelivered_message.message.content for undelivered_message in carryover(driver.thread).undelivered] == [
        text
    ]
    assert size_of(pack(snapshot_of(driver.thread))) < 1_000_000


def test_a_status_shows_the_beginning_of_a_long_undelivered_message() -> None:
    driver = Driver(PARENT)
    driver.feed(MailReturned(agent_message("m1", "x" * 2 * CONTENT_LENGTH), "recipient_unavailable"))
    (undelivered_message,) = driver.thread.mail.undelivered
    head = undelivered_message.message.model_copy(update={"content": "x" * CONTENT_LENGTH})
    assert status_view(driver.thread).undelivered == (undelivered_message.model_copy(update={"message": head}),)


@pytest.mark.parametrize("action", [None, "list", ""])
def test_undelivered_messages_are_listed(action: str | None) -> None:
    """B-570"""
    driver = with_undelivered()
    arguments: JsonValue = {} if action is None else {"action": action}
    driver.model(asks(call("c9", "recover_failed_messages", arguments)))
    (undelivered_message,) = driver.thread.mail.undelivered
    assert driver.json_result("c9") == {
        "action": "list",
        "count": 1,
        "messages": [
            {
                "message_id": undelivered_message.message.message_id,
                "recipient_thread_id": "t5",
                "recipient_agent_id": None,
                "error": "recipient_not_found",
            }
        ],
    }


def test_undelivered_messages_are_listed_without_arguments_too() -> None:
    driver = Driver(PARENT)
    driver.model(asks(call("c9", "recover_failed_messages")))
    assert driver.json_result("c9") == {"action": "list", "count": 0, "messages": []}


@pytest.mark.parametrize("action", ["burn", 5])
def test_an_unknown_action_on_undelivered_messages_is_an_error(action: JsonValue) -> None:
    """B-570"""
    driver = with_undelivered()
    driver.model(asks(call("c9", "recover_failed_messages", {"action": action})))
    assert dict(driver.tool_results)["c9"] == f"Invalid arguments: unknown action '{action}'"


def test_a_model_clears_its_undelivered_messages() -> None:
    """B-570"""
    driver = with_undelivered(2)
    driver.model(asks(call("c9", "recover_failed_messages", {"action": "clear"})))
    assert (driver.json_result("c9"), driver.thread.mail.undelivered) == ({"action": "clear", "count": 2}, ())


def test_a_model_resends_its_undelivered_messages_one_after_another_with_their_ids() -> None:
    """B-570, I-11"""
    driver = with_undelivered(3)
    undelivered = [undelivered_message.message for undelivered_message in driver.thread.mail.undelivered]
    driver.model(asks(call("c9", "recover_failed_messages", {"action": "replay"})))
    assert (driver.json_result("c9"), driver.thread.mail.undelivered) == ({"action": "replay", "count": 3}, ())
    ids = [f"resend-{message.message_id}" for message in undelivered]
    assert driver.last.commands[0] == DeliverMessage(ids[0], undelivered[0])
    assert driver.feed(Delivered(ids[0])).commands == (DeliverMessage(ids[1], undelivered[1]),)
    assert driver.feed(WorkFailed(ids[1], "recipient_not_found")).commands == (DeliverMessage(ids[2], undelivered[2]),)
    assert driver.feed(WorkCancelled(ids[2])).commands == ()
    assert [
        (undelivered_message.message, undelivered_message.error)
        for undelivered_message in driver.thread.mail.undelivered
    ] == [
        (undelivered[1], "recipient_not_found"),
        (undelivered[2], "it was cancelled"),
    ]


def test_a_second_resend_is_queued_after_the_one_in_flight() -> None:
    driver = with_undelivered(1)
    driver.feed(UndeliveredRequested("replay"))
    driver.feed(MailReturned(agent_message("m7"), "recipient_unavailable"))
    assert driver.feed(UndeliveredRequested("replay")).commands == ()
    first, second = driver.thread.mail.resending
    assert driver.thread.bound_to_execution == {driver.inference().id, f"resend-{first.message_id}"}
    assert driver.feed(Delivered(f"resend-{first.message_id}")).commands == (DeliverMessage("resend-m7", second),)


def test_the_result_of_a_resend_that_is_reported_twice_counts_once() -> None:
    driver = with_undelivered(2)
    driver.feed(UndeliveredRequested("replay"))
    first, second = driver.thread.mail.resending
    driver.feed(Delivered(f"resend-{first.message_id}"))
    before = driver.thread
    assert driver.feed(Delivered(f"resend-{first.message_id}")) == Advance(before)
    driver.feed(Delivered(f"resend-{second.message_id}"))
    before = driver.thread
    assert driver.feed(WorkFailed(f"resend-{second.message_id}", "recipient_not_found")) == Advance(before)


def test_a_client_resends_or_clears_the_undelivered_messages() -> None:
    driver = with_undelivered(1)
    (undelivered_message,) = driver.thread.mail.undelivered
    driver.feed(UndeliveredRequested("clear"))
    assert driver.thread.mail.undelivered == ()
    other = with_undelivered(1)
    other.feed(UndeliveredRequested("replay"))
    assert (other.thread.mail.undelivered, other.thread.mail.resending) == ((), (undelivered_message.message,))


def test_a_message_in_flight_when_the_thread_closes_counts_as_undelivered() -> None:
    driver = with_undelivered(1)
    driver.feed(UndeliveredRequested("replay"))
    (message,) = driver.thread.mail.resending
    assert carryover(driver.thread).undelivered == (UndeliveredMessage(message=message, error="it was being sent"),)
    woken = Driver(PARENT, carryover=carryover(driver.thread))
    assert [undelivered_message.message for undelivered_message in woken.thread.mail.undelivered] == [message]


def test_messages_in_flight_are_sent_again_after_continue_as_new() -> None:
    driver = with_undelivered(1)
    driver.feed(UndeliveredRequested("replay"))
    driver.model(asks(send_call("c9", TO_AGENT)))
    after = after_continue_as_new(driver.thread)
    assert pending_commands(after) == (driver.commands_of(DeliverMessage)[-1], driver.commands_of(DeliverMessage)[-2])
    child = sending(TO_CHILD)
    assert pending_commands(after_continue_as_new(child.thread)) == tuple(child.commands_of(SendSignal))


@pytest.mark.parametrize("sent", [True, False])
def test_a_run_that_is_cancelled_while_it_sends_records_whether_the_message_was_delivered(sent: bool) -> None:
    """I-11"""
    driver = sending()
    driver.cancel()
    assert CancelWork("send-c2") in driver.last.commands
    driver.feed(Delivered("send-c2") if sent else WorkCancelled("send-c2"))
    assert isinstance(driver.thread.stage, Cancelling)
    driver.feed(tool_settled("bg_0"), tool_settled("bg_1"))
    assert driver.result.termination == Cancelled()
    assert (len(driver.thread.mail.undelivered), "accepted" in dict(driver.tool_results)["c2"]) == (
        0 if sent else 1,
        sent,
    )


def test_a_message_from_an_agent_starts_a_run_on_an_idle_thread() -> None:
    """B-567, B-569"""
    driver = idle()
    driver.feed(mail_received())
    assert isinstance(driver.thread.stage, Resolving)
    assert driver.thread.identity == RunIdentity(
        thread_id="t1",
        run_id="r1.2",
        agent_id="assistant",
        origin=Origin.INTERNAL,
        run_mode=RunMode.INTERNAL_WAKE,
    )
    message = driver.thread.transcript.messages[-1]
    assert (message.id, message.visibility) == ("msg_1", Visibility.ALL)
    assert message.text == '<agent-message from="boss" thread_id="t0">\nHurry!\n</agent-message>'


def test_a_message_to_a_task_is_formatted_like_a_task_event() -> None:
    """B-564"""
    driver = Driver(PARENT)
    driver.feed(MailReceived(agent_message(relation="child", task_id="bg_0")))
    driver.model(says("Hm."))
    assert driver.texts[-1] == (
        '<background-task-event kind="custom" task_id="bg_0">\n{"kind":"custom","task_id":"bg_0",'
        '"event_type":"agent_message","payload":{"from":"boss","content":"Hurry!"}}\n</background-task-event>'
    )


def test_a_message_is_read_once_however_often_it_arrives() -> None:
    """B-569, I-11"""
    driver = idle()
    driver.feed(mail_received())
    before = driver.thread
    assert driver.feed(mail_received()) == Advance(before)
    driver.resolve(PARENT)
    driver.model(says("I do."))
    before = driver.thread
    assert driver.feed(mail_received()) == Advance(before)


def test_a_long_message_is_appended_by_reference() -> None:
    driver = idle()
    driver.feed(mail_received(text="x" * 3000))
    driver.resolve(PARENT)
    assert driver.inference().appended[-1] == "mail:msg_1"


def from_thread(thread_id: str) -> AgentMessage:
    return agent_message().model_copy(update={"sender": Sender(agent_id="boss", thread_id=thread_id)})


def test_a_thread_is_woken_for_a_message_after_its_close() -> None:
    driver = idle()
    driver.cancel(close=True)
    driver.feed(MailReceived(agent_message()))
    assert (driver.commands_of(SendSignal), driver.thread.has_late) == ([], True)
    woken = Driver(PARENT, request=NO_INPUT, carryover=carryover(driver.thread))
    assert [message.id for message in woken.thread.transcript.messages] == ["msg_1"]
    assert woken.thread.identity.origin is Origin.INTERNAL


@pytest.mark.parametrize("sender", ["t9/sibling", "t1/child"])
def test_mail_within_a_tree_that_is_cancelled_starts_nothing(sender: str) -> None:
    driver = Driver(PARENT, request=SUB_AGENT)
    driver.cancel()
    driver.feed(MailReceived(from_thread(sender)))
    driver.cancel_in_flight()
    driver.feed(MailReceived(from_thread(sender).model_copy(update={"message_id": "msg_2"})))
    driver.feed(WorkFailed("return-msg_2", "recipient_unavailable"))
    assert driver.thread.has_late is False
    assert [message.id for message in carryover(driver.thread).mail] == ["msg_1", "msg_2"]


RETURNED = {
    "of an older revision": (done(revision=LATE_MESSAGES - 1), "t0"),
    "of its parent": (done(request=SUB_AGENT), "t0"),
    "of its child": (done(), "t1/child"),
}


@pytest.mark.parametrize(("driver", "sender"), RETURNED.values(), ids=RETURNED)
def test_a_message_after_the_end_is_returned_to_its_sender(driver: Driver, sender: str) -> None:
    """H-07, I-11"""
    message = from_thread(sender)
    before = driver.thread
    returned = ReturnedMessage(message=message, error="recipient_unavailable")
    signal = SendSignal("return-msg_1", sender, SIGNAL_MAIL_RETURNED, returned)
    assert driver.feed(MailReceived(message)) == Advance(
        replace(before, mail=replace(before.mail, returning=(message,))), (signal,)
    )
    assert driver.feed(Delivered("return-msg_1")) == Advance(before)
    assert driver.feed(Delivered("return-msg_1")) == Advance(before), "a repeated report is a no-op"


def test_a_message_that_cannot_be_returned_is_kept_in_the_carryover() -> None:
    """I-11"""
    driver = done(request=SUB_AGENT)
    driver.feed(MailReceived(agent_message()), WorkFailed("return-msg_1", "recipient_unavailable"))
    assert [message.id for message in carryover(driver.thread).mail] == ["msg_1"]


def test_a_message_that_comes_back_after_the_end_is_kept_as_undelivered() -> None:
    """I-11"""
    driver = done()
    driver.feed(MailReturned(agent_message(), "recipient_unavailable"))
    assert (driver.last.commands, driver.last.events) == ((), ())
    assert [undelivered_message.message.message_id for undelivered_message in carryover(driver.thread).undelivered] == [
        "msg_1"
    ]


def test_a_request_for_undelivered_messages_after_the_end_is_a_no_op() -> None:
    driver = done()
    before = driver.thread
    assert driver.feed(UndeliveredRequested("clear")) == Advance(before)


def test_mail_in_the_carryover_is_read_by_the_first_run() -> None:
    old = done(request=SUB_AGENT)
    old.feed(MailReceived(agent_message()), WorkFailed("return-msg_1", "recipient_unavailable"))
    driver = Driver(PARENT, carryover=carryover(old.thread))
    assert [message.id for message in driver.thread.transcript.messages] == ["woken:1", "msg_1"]


@pytest.mark.parametrize("has_task", [False, True], ids=["idle", "waiting for its task"])
@pytest.mark.parametrize("revision", [UNRETURNED_MAIL_WAITS - 1, UNRETURNED_MAIL_WAITS])
def test_a_message_that_cannot_be_returned_waits_for_the_next_step(has_task: bool, revision: int) -> None:
    """A sub-agent that has reported its end, and that a person has woken, returns mail."""
    ended = done(request=SUB_AGENT.model_copy(update={"subagent": UNNAMED}))
    driver = Driver(PARENT, request=THREAD, revision=revision, carryover=carryover(ended.thread))
    if has_task:
        driver.model(asks(spawn_call("c1")))
    driver.model(says("Done."))
    stage = driver.thread.stage
    made = driver.feed(MailReceived(agent_message()), WorkFailed("return-msg_1", "recipient_unavailable"))
    assert made.commands == ()
    assert (driver.thread.stage == stage) is (revision >= UNRETURNED_MAIL_WAITS)
    if revision >= UNRETURNED_MAIL_WAITS:
        if has_task:
            driver.feed(tool_settled("bg_0"))
        else:
            driver.submit("m1")
            driver.resolve(PARENT)
        assert "msg_1" in [message.id for message in driver.thread.transcript.messages]
