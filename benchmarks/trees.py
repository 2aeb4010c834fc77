"""A tree of agents that grows until it has so many, and is cancelled at its root: `python -m benchmarks.trees 200`.

It prints how long the tree took to grow and to close, how many agents it had in the end, and how long after the root
had handled its cancel the last of them started. Every agent starts five others, one a step, down to the sixth level.
"""

import argparse
import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import EventType

from wakeful import Agent, Budget, Registry
from wakeful.client.client import Client
from wakeful.testing import ScriptedModel, call, runtime, say

SPAWNS = [call("spawn_agent", agent="grower", prompt="again")] * 5
UNLIMITED = 10**9
RUNNING = "AND ExecutionStatus = 'Running'"


def registry() -> Registry:
    # A release without a limit of agents has no field for one.
    budget = Budget(agents=UNLIMITED) if "agents" in Budget.model_fields else Budget()
    model = ScriptedModel([*SPAWNS, say("done")], strict=False)
    return Registry(agents=[Agent(id="grower", model="m", spawns=["grower"], budget=budget)], models={"m": model})


async def measure(size: int, *, seconds: float) -> dict[str, float]:
    """Grow a tree to `size` agents, cancel it, and wait until it is quiet, or for so many seconds."""
    async with runtime(registry()) as client:
        began = time.perf_counter()
        root = await client.start("grower", "grow")
        async with asyncio.timeout(seconds):
            grown = await counted(client, lambda count: count >= size)
        cancelled = time.perf_counter()
        await client.cancel(root)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await counted(client, lambda count: not count, RUNNING)
        quiet, left = time.perf_counter() - cancelled, await count(client, RUNNING)
        handled = await handled_at(client, root)
        starts = [each.start_time async for each in client.temporal.list_workflows("WakefulAgent = 'grower'")]
        late = [start - handled for start in starts if handled is not None and start > handled]
        return {
            "agents_at_cancel": grown,
            "seconds_to_grow": round(cancelled - began, 1),
            "seconds_to_quiet": round(quiet, 1),
            "open_in_the_end": left,
            "agents_in_the_end": len(starts),
            "started_after_the_root_handled_it": len(late),
            "latest_start_after_the_root_handled_it": round(max(late, default=timedelta()).total_seconds(), 1),
            "load": round(os.getloadavg()[0], 1),
        }


async def counted(client: Client, is_met: Callable[[int], bool], condition: str = "") -> int:
    """Count the agents until there are as many as `is_met` says."""
    while not is_met(found := await count(client, condition)):  # noqa: ASYNC110  # only the server knows it
        await asyncio.sleep(0.5)
    return found


async def count(client: Client, condition: str = "") -> int:
    return (await client.temporal.count_workflows(f"WakefulAgent = 'grower' {condition}")).count


async def handled_at(client: Client, root: str) -> datetime | None:
    """When a worker completed the workflow task that brought the root its cancel; None if none did.

    A workflow task that a worker had when the cancel came does not bring it.
    """
    requested = started = False
    async for event in client.temporal.get_workflow_handle(root).fetch_history_events():
        requested |= event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
        started |= requested and event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
        if started and event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return event.event_time.ToDatetime(UTC)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", type=int, help="how many agents the tree has when it is cancelled")
    parser.add_argument(
        "--seconds", type=float, default=900, help="how long to wait until it has grown, and until it is quiet"
    )
    given = parser.parse_args()
    for name, value in asyncio.run(measure(given.size, seconds=given.seconds)).items():
        print(f"{name.replace('_', ' '):40} {value:g}")


if __name__ == "__main__":
    main()
