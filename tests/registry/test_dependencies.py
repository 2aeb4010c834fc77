"""A lifespan: what a worker opens once, and what tools, gates, hooks, instructions and providers receive of it."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, assert_type

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.exceptions import ApplicationError

from tests.activities.wiring import cache_of, environment
from wakeful import (
    Agent,
    Client,
    ConfigurationError,
    GateCall,
    HookContext,
    InstructionsContext,
    ModelRequest,
    ModelResponse,
    NoSettings,
    Plugin,
    Registry,
    ToolContext,
    WorkerSettings,
    call,
    gate,
    running_worker,
    say,
    tool,
)
from wakeful.authoring.scripted import ScriptedModel
from wakeful.contract.agents import HistoryBudget, ResolveInput
from wakeful.contract.error_text import error_text
from wakeful.registry.dependencies import Dependencies
from wakeful_activities.resolve import ResolveActivity
from wakeful_activities.user_code import UserCode


@dataclass
class Database:
    uses: list[str] = field(default_factory=list)
    is_open: bool = True

    def use(self, who: str) -> str:
        self.uses.append(who if self.is_open else f"{who}, after it was closed")
        return who


class Cache:
    pass


@tool
async def count(ctx: ToolContext[Database]) -> str:
    """Count the orders."""
    return ctx.deps.use("tool")


@tool(read_only=True)
def peek(ctx: ToolContext[Database]) -> str:
    """Peek."""
    return ctx.deps.use("sync tool")


@gate
def open_hours(call: GateCall[Database]) -> None:
    if call.tool_name == "count":
        call.deps.use("gate, first" if call.is_first_check else "gate")


class Audit(Plugin[NoSettings, Database]):
    id = "audit"

    def run_start(self, ctx: HookContext[NoSettings, Database]) -> None:
        ctx.deps.use("hook")


async def prompt(ctx: InstructionsContext[Database]) -> str:
    """Counts orders."""
    return f"Count for the {ctx.deps.use('instructions')}."


class HouseModel(ScriptedModel):
    def __init__(self, database: Database) -> None:
        super().__init__([call("count") & call("peek"), say("two")])
        self._database = database

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self._database.use(f"provider: {request.instructions}")
        return await super().complete(request)


async def test_the_code_of_users_receives_the_value_of_the_lifespan_which_is_entered_once(
    temporal: TemporalClient, thread_id: str
) -> None:
    """B-680."""
    database, entered = Database(), list[str]()

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[Database]:
        entered.append("in")
        yield database
        database.is_open = False
        entered.append("out")

    clerk = Agent(id="clerk", instructions=prompt, tools=[count, peek], gates=[open_hours], plugins=[Audit()])
    registry = Registry(agents=[clerk], models={"default": HouseModel}, lifespan=lifespan)
    settings = WorkerSettings(task_queue=thread_id, sweep_interval=None)
    async with running_worker(temporal, registry, settings), Client(temporal, task_queue=thread_id) as client:
        assert (await client.run("clerk", "how many?", thread_id=f"{thread_id}-1")).response == "two"
        assert (await client.run("clerk", "how many?", thread_id=f"{thread_id}-2")).response == "two"
        assert entered == ["in"]
    assert entered == ["in", "out"]
    asked = "provider: Count for the instructions."
    once = ["instructions", "hook", asked, "gate, first", "gate", "tool", "sync tool", asked]
    assert database.uses == [*once, *once]


async def test_a_lifespan_exits_after_activities_have_ended(temporal: TemporalClient, thread_id: str) -> None:
    database = Database()

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[Database]:
        yield database
        database.is_open = False

    class Endless(Plugin[NoSettings, Database]):
        id = "endless"

        async def shutdown(self) -> None:
            database.use("shutdown of a plugin")

    registry = Registry(agents=[Agent(id="a", plugins=[Endless()], tools=[count])], lifespan=lifespan)
    async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id, sweep_interval=None)):
        pass
    assert (database.uses, database.is_open) == (["shutdown of a plugin"], False)


async def test_a_worker_whose_lifespan_raises_does_not_start(temporal: TemporalClient, thread_id: str) -> None:
    """B-681."""

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Database]:
        raise ConnectionRefusedError("no database at db:5432")
        yield Database()

    registry = Registry(agents=[Agent(id="a", tools=[count])], lifespan=connect)
    problem = (
        "the lifespan 'connect' of the registry raised ConnectionRefusedError: no database at db:5432. The worker does "
        "not start without its value"
    )
    with pytest.raises(ConfigurationError, match=problem):
        async with running_worker(temporal, registry, WorkerSettings(task_queue=thread_id)):
            pytest.fail("it started")


@contextlib.asynccontextmanager
async def cache() -> AsyncIterator[Cache]:
    yield Cache()


async def test_the_value_has_to_be_of_the_type_that_code_takes() -> None:
    """B-681."""

    def factory(database: Database) -> HouseModel:
        return HouseModel(database)

    clerk = Agent(id="clerk", instructions=prompt, tools=[count], gates=[open_hours], plugins=[Audit()])
    registry = Registry(agents=[clerk], models={"default": factory}, lifespan=cache)
    with pytest.raises(ConfigurationError) as raised:
        async with Dependencies(cache).running(registry):
            pytest.fail("it started")
    other = "takes a Database, and the lifespan yields a Cache: change one of them"
    assert raised.value.problems == (
        f"tool 'count' {other}",
        f"gate 'open_hours' {other}",
        f"plugin 'audit' {other}",
        f"the instructions of agent 'clerk' {other}",
        f"the provider of 'default' {other}",
    )


async def test_a_provider_that_cannot_be_made_stops_the_worker() -> None:
    def factory(cache: Cache) -> HouseModel:
        raise OSError("no key")

    registry = Registry(agents=[Agent(id="a")], models={"default": factory}, lifespan=cache)
    with pytest.raises(ConfigurationError, match="the provider of 'default' could not be made: OSError: no key"):
        async with Dependencies(cache).running(registry):
            pytest.fail("it started")


async def test_a_registry_without_a_lifespan_refuses_code_that_takes_its_value() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Registry(agents=[Agent(id="a", tools=[count])], models={"default": HouseModel})
    assert raised.value.problems == (
        "tool 'count' takes a Database, and the registry has no lifespan: pass one that yields a Database, as "
        "Registry(lifespan=…)",
        "the provider of 'default' is a factory, and the registry has no lifespan: pass a provider",
    )


async def _plain() -> AsyncIterator[Cache]:
    yield Cache()


@pytest.mark.parametrize(
    ("lifespan", "problem"),
    [
        (
            _plain,
            "the lifespan '_plain' is a plain generator function: decorate it with @contextlib.asynccontextmanager",
        ),
        (cache(), "the lifespan is a _AsyncGeneratorContextManager: pass the function that returns the async context"),
    ],
)
def test_a_lifespan_is_a_function_that_returns_an_async_context_manager(lifespan: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Registry(lifespan=lifespan)


async def test_a_registry_keeps_its_lifespan_when_its_parts_are_replaced() -> None:
    registry = Registry(agents=[Agent(id="a", tools=[count])], lifespan=cache)
    registry.replace(agents=[Agent(id="b", tools=[count])])
    assert registry.lifespan is cache


async def _raising(ctx: InstructionsContext) -> str:
    raise LookupError("no template")


def _numeric(ctx: InstructionsContext) -> Any:
    return 7


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (_raising, "raised an error; the detail of this failure has its text"),
        (_numeric, "returned a int, which is no text"),
    ],
)
async def test_an_agent_whose_instructions_cannot_be_written_is_looked_up_again(write: Any, problem: str) -> None:
    registry = Registry(agents=[Agent(id="a", instructions=write)])
    resolve = ResolveActivity(registry, cache_of(), UserCode(), search_attributes=(), budget=HistoryBudget())
    with pytest.raises(ApplicationError) as raised:
        await environment().run(resolve.resolve_agent, ResolveInput(agent_id="a"))
    assert raised.value.message == f"the instructions of agent 'a' {problem}"
    text = "the instructions of agent 'a' raised LookupError: no template"
    assert error_text(raised.value.details) == (text if write is _raising else None)
    assert (raised.value.non_retryable, raised.value.__cause__) == (False, None)


def test_other_agents_read_the_docstring_of_dynamic_instructions() -> None:
    boss = Agent(id="boss", delegates=["clerk"])
    registry = Registry(agents=[boss, Agent(id="clerk", instructions=prompt)], lifespan=cache)
    delegate = next(tool for tool in registry.resolve("boss").tools if tool.id == "agent_run_clerk")
    assert 'Its instructions begin: "Counts orders."' in delegate.description


def typed(
    ctx: ToolContext[Database], bare: ToolContext, gated: GateCall[Database], hook: HookContext[NoSettings, Cache]
) -> None:
    """Checked by mypy, as the rest of the tests is: `make check` fails if a line here has another type."""
    assert_type(ctx.deps, Database)
    assert_type(gated.deps, Database)
    assert_type(hook.deps, Cache)
    assert_type(bare.deps, object)
    takes_any: ToolContext = ctx
    ctx.deps.usse("a misspelt method")  # type: ignore[attr-defined]
    bare.deps.use("a type that the parameter does not name")  # type: ignore[attr-defined]
    other: ToolContext[Cache] = ctx  # type: ignore[assignment]
    del takes_any, other


class WrongHook(Plugin[NoSettings, Database]):
    id = "wrong"

    def run_start(self, ctx: HookContext[NoSettings, Cache]) -> None:  # type: ignore[override]
        """A hook takes what its plugin names."""
