"""An A2A server, as the official client sees it: over real HTTP, Temporal and a worker (B-714)."""

from a2a.types import TaskState
from a2a.utils.constants import TransportProtocol

from tests.a2a.conftest import calling, text_of


async def test_a_message_is_answered_by_a_completed_task(url: str, binding: TransportProtocol, thread_id: str) -> None:
    async with calling(url, thread_id, binding=binding) as caller:
        task = await caller.task(caller.request("add"))
        assert task.status.state == TaskState.TASK_STATE_COMPLETED
        assert (task.context_id, text_of(task)) == (thread_id, "the sum is 5")
        assert await caller.get(task.id) == task
