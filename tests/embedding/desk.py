"""Workflows of a user's own, in the sandbox, which run agents."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.workflow import ParentClosePolicy

from wakeful import RunResult
from wakeful.workflow import AgentFailed, AgentHandle, run_agent, start_agent


class Quote(BaseModel):
    item: str
    price: int


class Ask(BaseModel):
    """What a workflow asks an agent."""

    agent_id: str
    text: str = "hello"
    timeout: float | None = None
    scope: float | None = None
    """Seconds of an `asyncio.timeout` of the workflow's own."""
    abandon: bool = False


@activity.defn
async def stamp(text: str) -> str:
    return f"{text}, stamped"


@workflow.defn
class Quotes:
    """Asks for a quote, and stamps it with an activity of its own."""

    @workflow.run
    async def run(self, agent_id: str) -> str:
        quote = await run_agent(agent_id, "how much is tea?", output_type=Quote)
        text = f"{quote.item} costs {quote.price}"
        return await workflow.execute_activity(stamp, text, start_to_close_timeout=timedelta(seconds=10))


@workflow.defn
class Asks:
    """Starts an agent, passes decisions and messages on to it, and says how it ended."""

    def __init__(self) -> None:
        self._agent: AgentHandle[RunResult] | None = None

    @workflow.run
    async def run(self, ask: Ask) -> str:
        policy = ParentClosePolicy.ABANDON if ask.abandon else ParentClosePolicy.REQUEST_CANCEL
        agent = await start_agent(ask.agent_id, ask.text, parent_close_policy=policy)
        if ask.timeout is not None:
            agent.cancel_after(timedelta(seconds=ask.timeout))
        self._agent = agent
        if ask.abandon:
            return agent.thread_id
        try:
            async with asyncio.timeout(ask.scope):
                result = await agent.result()
        except TimeoutError:
            return "the scope ended"
        except AgentFailed as error:
            ended = "" if error.result is None else f" ({error.result.status_reason})"
            return f"{error.type}: {error.message}{ended}"
        return f"{result.status_reason}: {result.response}"

    @workflow.query
    def thread_id(self) -> str | None:
        return None if self._agent is None else self._agent.thread_id

    @workflow.signal
    async def approve(self, call_id: str) -> None:
        assert self._agent is not None
        await self._agent.decide(call_id, "resume", actor="the order system")

    @workflow.signal
    async def send(self, text: str) -> None:
        assert self._agent is not None
        await self._agent.send(text)

    @workflow.signal
    def cancel(self, reason: str) -> None:
        assert self._agent is not None
        self._agent.cancel(reason)


@workflow.defn
class Compensates:
    """Catches its cancel, and lets an agent clean up."""

    @workflow.run
    async def run(self, ask: Ask) -> str:
        try:
            await run_agent(ask.agent_id, ask.text)
        except asyncio.CancelledError:
            try:
                await run_agent(ask.agent_id, "clean up", timeout=timedelta(seconds=ask.timeout or 0))
            except AgentFailed as error:
                return error.type or ""
        return "not cancelled"


@workflow.defn
class Uncaught:
    """Does not catch what becomes of its agent."""

    @workflow.run
    async def run(self, ask: Ask) -> str:
        return (await run_agent(ask.agent_id, ask.text)).response
