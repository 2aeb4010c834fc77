"""docs/in-your-cluster.md names every call to Temporal that a client makes: permissions are planned by it."""

import re

from temporalio.client import ScheduleSpec

from tests.support.counting import counting_client
from tests.support.processes import ROOT
from tests.support.waiting import until_status
from wakeful import RunStatus
from wakeful.client.cancel_many import select_runs
from wakeful.client.client import Client


async def test_every_call_of_a_client_is_in_the_documentation(client: Client, thread_id: str) -> None:
    temporal, calls = counting_client(client.temporal)
    async with Client(temporal) as counted:
        await counted.start("tester", "approve", thread_id=thread_id)
        await until_status(counted, thread_id, RunStatus.WAITING)
        await counted.transcript(thread_id)
        await counted.tree(thread_id)
        await counted.why(thread_id)
        await counted.decide(thread_id, "1-1", "resume", confirm=True)
        await counted.result(thread_id)
        await counted.fork(thread_id, at=0, message="approve", new_thread_id=f"{thread_id}-fork")
        await until_status(counted, f"{thread_id}-fork", RunStatus.WAITING)
        await counted.rewind(f"{thread_id}-fork", to=0)
        await counted.cancel(f"{thread_id}-fork")
        await counted.send(thread_id, "hi")
        await until_status(counted, thread_id, RunStatus.DONE)
        await counted.close(thread_id)
        await counted.result(thread_id)
        await counted.delete(thread_id)
        _ = [each async for each in counted.inbox(thread_id=f"{thread_id}-fork")]
        await select_runs(temporal, "WakefulAgent = 'tester'")
        created = await counted.schedules.create(
            "tester", "hi", spec=ScheduleSpec(cron_expressions=["0 9 * * *"]), schedule_id=f"s-{thread_id}"
        )
        _ = [each async for each in counted.schedules.list()]
        await counted.schedules.delete(created)
    page = (ROOT / "docs" / "in-your-cluster.md").read_text()
    made = {"".join(word.title() for word in call.split("_")) for call in calls}
    assert made - set(re.findall(r"`(\w+)`", page)) == set()
    assert {"StartWorkflowExecution", "QueryWorkflow", "ResetWorkflowExecution", "DeleteSchedule"} <= made
