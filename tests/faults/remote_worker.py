"""A worker that tests kill with -9 while its agent delegates to a remote one.

The program is `python -m tests.faults.remote_worker ADDRESS TASK_QUEUE URL`; the remote agent is at URL.
"""

import asyncio
import sys
from datetime import timedelta

from wakeful import Agent, Endpoint, ModelRequest, ModelResponse, Registry
from wakeful.connection import Address, connect
from wakeful.contract.inference import StopReason
from wakeful.contract.messages import Role, ToolCall
from wakeful.worker import WorkerSettings, serve

LOST_SECONDS = 3.0
"""After so many seconds without a heartbeat, the worker of a call counts as lost."""


class Delegating:
    """Passes the user's message on, and then repeats what came back."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return ModelResponse(model=request.model, text=last.text)
        call = ToolCall(id="c1", name="agent_run_remote", arguments={"prompt": last.text})
        return ModelResponse(model=request.model, tool_calls=(call,), stop_reason=StopReason.TOOL_USE)


async def main(address: str, task_queue: str, url: str) -> None:
    local = Agent(id="local", model="plan", delegates=["remote"], inference_heartbeat_timeout=LOST_SECONDS)
    remote = Agent(id="remote", endpoint=Endpoint(url=url, poll_seconds=0.2), inference_heartbeat_timeout=LOST_SECONDS)
    registry = Registry(agents=[local, remote], models={"plan": Delegating()})
    settings = WorkerSettings(task_queue=task_queue, sweep_interval=None, sticky_timeout=timedelta(seconds=1))
    client = await connect(Address(address))
    print(f"worker on task queue {task_queue}", flush=True)
    await serve(client, registry, settings, until=asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
