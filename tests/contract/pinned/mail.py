"""Pins of `wakeful.contract.mail`."""

from tests.contract.pinned.pin import Pin
from wakeful.contract.mail import AgentMessage, ReturnedMessage, Sender, TaskEvent, UndeliveredMessage

SENDER = Sender(agent_id="assistant", thread_id="t1")
LETTER = AgentMessage(message_id="m1", sender=SENDER, content="Hello", relation="parent", recipient_thread_id="t0")
DEAD = UndeliveredMessage(message=LETTER, error="recipient_not_found", at=7)

PINS = (
    Pin(SENDER, '{"agent_id":"assistant","thread_id":"t1"}'),
    Pin(
        Sender(agent_id="assistant", thread_id="t1", task_id="bg_0", name="scout"),
        '{"agent_id":"assistant","thread_id":"t1","task_id":"bg_0","name":"scout"}',
    ),
    Pin(
        LETTER,
        '{"kind":"letter","message_id":"m1","sender":{"agent_id":"assistant","thread_id":"t1"},'
        '"content":"Hello","relation":"parent","recipient_thread_id":"t0"}',
    ),
    Pin(
        AgentMessage(
            message_id="m1",
            sender=SENDER,
            content="Hello",
            relation="child",
            recipient_thread_id="t2",
            recipient_agent_id="clerk",
            task_id="bg_0",
        ),
        '{"kind":"letter","message_id":"m1","sender":{"agent_id":"assistant","thread_id":"t1"},'
        '"content":"Hello","relation":"child","recipient_thread_id":"t2","recipient_agent_id":"clerk",'
        '"task_id":"bg_0"}',
    ),
    Pin(
        TaskEvent(message_id="t1/c1:1", task_id="bg_0", event_type="found", payload={"n": 1}),
        '{"kind":"task_event","message_id":"t1/c1:1","task_id":"bg_0","event_type":"found","payload":{"n":1}}',
    ),
    Pin(
        TaskEvent(message_id="t1/c1:1", task_id="bg_0", thread_id="t1/dig-1", event_type="found"),
        '{"kind":"task_event","message_id":"t1/c1:1","task_id":"bg_0","thread_id":"t1/dig-1",'
        '"event_type":"found","payload":null}',
    ),
    Pin(
        TaskEvent(message_id="t1/c1:1", task_id="bg_0", event_type="found"),
        '{"kind":"task_event","message_id":"t1/c1:1","task_id":"bg_0","event_type":"found","payload":null}',
    ),
    Pin(
        DEAD,
        '{"letter":{"kind":"letter","message_id":"m1","sender":{"agent_id":"assistant","thread_id":"t1"},'
        '"content":"Hello","relation":"parent","recipient_thread_id":"t0"},"error":"recipient_not_found",'
        '"at":7}',
    ),
    Pin(
        ReturnedMessage(message=LETTER, error="recipient_unavailable"),
        '{"letter":{"kind":"letter","message_id":"m1","sender":{"agent_id":"assistant","thread_id":"t1"},'
        '"content":"Hello","relation":"parent","recipient_thread_id":"t0"},'
        '"error":"recipient_unavailable"}',
    ),
)
