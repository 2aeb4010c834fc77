"""What decides when a thread is archived is the same on every release."""

from tests.loop.driving import submitted_message
from wakeful.contract.base import json_bytes
from wakeful.contract.events import EventRecord, MessageReceived
from wakeful.contract.runs import Adapter
from wakeful_workflows.archives import counted_bytes


def test_what_older_releases_did_not_say_of_a_message_does_not_count() -> None:
    message = submitted_message("m1")
    records = [
        EventRecord(seq=1, at=1, run_id="r1", agent_id="a", event=MessageReceived(message=message, adapter=adapter))
        for adapter in (None, Adapter.A2A)
    ]
    assert [counted_bytes(record) for record in records] == [json_bytes(records[0])] * 2
