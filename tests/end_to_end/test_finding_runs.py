"""The queries of `docs/in-your-cluster.md` find exactly the runs that they are for, among 200 of every kind."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client as TemporalClient

from tests.support.namespaces import empty_namespace
from tests.support.processes import ROOT
from tests.support.waiting import BOUND_SECONDS, until_status
from wakeful import (
    Agent,
    Client,
    GateCall,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Registry,
    RunStatus,
    ScriptedModel,
    StopOnTool,
    ThreadMode,
    ToolContext,
    WorkerSettings,
    call,
    gate,
    running_worker,
    say,
    tool,
)
from wakeful.contract import names
from wakeful.contract.gates import Verdict

RUNS = 200
OLD = 64
"""Of them, how many ended before the hour that the queries ask for."""
TOGETHER = 20

KINDS = ("answer", "block", "stop", "fail", "missing", "cancel", "signal", "wait")
AGENTS, TENANTS = ("clerk", "buyer"), ("acme", "globex")


@tool
def ask(ctx: ToolContext) -> str:
    """Ask a person."""
    if ctx.resume_input is None:
        ctx.suspend("May I?")
    return "yes"


@tool
def stop() -> str:
    """Stop the run."""
    return "unused"


@tool
def block() -> str:
    """Do what a gate blocks."""
    return "unused"


@gate
def guard(called: GateCall) -> Verdict | None:
    return called.block("not here") if called.tool_name == "block" else None


class Model(ScriptedModel):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        if request.messages[-1].text == "fail":
            raise ProviderError(ProviderErrorKind.UNAUTHORIZED, "no such key")
        return self.answer(request)


MODEL = Model(
    [say("hello")],
    when={"block": [call("block")], "stop": [call("stop")], "cancel|signal|wait": [call("ask")]},
)


def agent(id: str) -> Agent:
    return Agent(id=id, tools=[ask, stop, block], gates=[guard], stop_conditions=[StopOnTool(tool_name="stop")])


@dataclass(frozen=True)
class Run:
    """A run of the test, and everything by which a query can find it."""

    number: int

    @property
    def thread_id(self) -> str:
        return f"{self.number}-{self.kind}"

    @property
    def kind(self) -> str:
        return KINDS[self.number % 8]

    @property
    def agent(self) -> str:
        return "missing" if self.kind == "missing" else AGENTS[self.number // 8 % 2]

    @property
    def tenant(self) -> str:
        return TENANTS[self.number // 16 % 2]

    @property
    def mode(self) -> ThreadMode:
        return ThreadMode.THREAD if self.number // 32 % 2 else ThreadMode.RUN

    @property
    def is_old(self) -> bool:
        return self.number < OLD

    @property
    def is_closed(self) -> bool:
        return self.mode is ThreadMode.RUN and self.kind != "wait"


async def drive(client: Client, run: Run) -> None:
    """Start the run, and bring it to its end, or to where it waits."""
    id = run.thread_id
    await client.start(run.agent, run.kind, thread_id=id, mode=run.mode, tenant=run.tenant)
    if run.kind in ("cancel", "signal", "wait"):
        await until_status(client, id, RunStatus.WAITING)
    if run.kind == "cancel":
        await client.cancel(id)
    if run.kind == "signal":
        await client.handle(id).signal(names.SIGNAL_CANCEL)
    if run.kind != "wait":
        await until_status(client, id, RunStatus.DONE)


async def drive_all(client: Client, runs: list[Run]) -> None:
    for first in range(0, len(runs), TOGETHER):
        await asyncio.gather(*(drive(client, run) for run in runs[first : first + TOGETHER]))


def documented() -> dict[str, str]:
    """The queries and conditions of the page, by what they find."""
    section = (ROOT / "docs" / "in-your-cluster.md").read_text().partition("## Finding failures")[2]
    return dict(re.findall(r"^\| ([a-z][^|]*?) \| `([^`]* [^`]*)` \|$", section, re.MULTILINE))


async def found_by(temporal: TemporalClient, query: str, expected: set[str]) -> set[str]:
    """What a query finds, once visibility shows what it should, or at the end of the time that it may take."""
    found: set[str] = set()
    deadline = asyncio.get_running_loop().time() + BOUND_SECONDS
    while found != expected and asyncio.get_running_loop().time() < deadline:
        found = {execution.id async for execution in temporal.list_workflows(query)}
        await asyncio.sleep(0.1)
    return found


@pytest.mark.faults
async def test_the_documented_queries_find_exactly_the_runs_that_they_are_for(temporal: TemporalClient) -> None:
    """B-026"""
    namespace = await empty_namespace(temporal)
    registry = Registry(agents=[agent(id) for id in AGENTS], models={"default": MODEL})
    runs = [Run(number) for number in range(RUNS)]
    settings = WorkerSettings(new_run_patience=timedelta())
    async with running_worker(namespace, registry, settings), Client(namespace) as client:
        await drive_all(client, [run for run in runs if run.is_old])
        since = datetime.now(UTC).isoformat()
        await drive_all(client, [run for run in runs if not run.is_old])

        queries = documented()
        hour = {
            "that closed in the last hour": lambda run: not run.is_old and run.is_closed,
            "that started in the last hour, also open threads": lambda run: not run.is_old,
        }
        others = {
            "of one tenant": lambda run: run.tenant == "acme",
            "of one agent": lambda run: run.agent == "clerk",
            "that no other agent started": lambda run: bool(run),
        }
        kinds = {
            "failed runs": ("fail", "missing"),
            "cancelled runs": ("cancel", "signal"),
            "blocked runs": ("block",),
            "runs that wait for a decision, a task or a budget": ("wait",),
            "runs that wait for a decision": ("wait",),
        }

        async def check(name: str, *conditions: tuple[str, Callable[[Run], bool]]) -> None:
            query = queries[name]
            for condition, _ in conditions:
                query += " AND " + queries[condition].replace("2026-11-17T09:00:00Z", since)
            query = query.replace("'assistant'", "'clerk'")
            expected = {
                run.thread_id for run in runs if run.kind in kinds[name] and all(holds(run) for _, holds in conditions)
            }
            assert (query, await found_by(namespace, query, expected)) == (query, expected)

        for name in kinds:
            await check(name)
            for time in hour.items():
                await check(name, time)
                await check(name, time, *others.items())
            for other in others.items():
                await check(name, other)
        reason = queries["with one reason"].replace("rate_limited", "unauthorized")
        expected = {run.thread_id for run in runs if run.kind == "fail"}
        assert await found_by(namespace, f"{queries['failed runs']} AND {reason}", expected) == expected
