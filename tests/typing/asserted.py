"""What type checkers infer of the public API. mypy checks it with every other file, pyright in `test_checkers.py`.

It is never run.
"""

import contextlib
from collections.abc import AsyncGenerator
from typing import assert_type

from pydantic import BaseModel, JsonValue, TypeAdapter

from wakeful import (
    AfterToolExecute,
    Agent,
    Answer,
    Behavior,
    Client,
    Decision,
    DecisionAction,
    GateCall,
    HookContext,
    InputMessage,
    InstructionsContext,
    NoSettings,
    PermissionPolicy,
    Plugin,
    ProfileKey,
    Registry,
    Role,
    Rule,
    RunRequest,
    RunResult,
    State,
    StateKey,
    StopPart,
    StopReason,
    TextBlock,
    ThreadMode,
    ToolContext,
    ToolMode,
    ToolResult,
    ToolStatus,
)
from wakeful.workflow import AgentHandle, run_agent, start_agent


class Ticket(BaseModel):
    title: str


class Settings(BaseModel):
    limit: int = 3


class Database:
    async def query(self, sql: str) -> list[str]:
        return [sql]


@contextlib.asynccontextmanager
async def lifespan() -> AsyncGenerator[Database]:
    yield Database()


async def answers(client: Client) -> None:
    asked = await client.ask("t", "hello")
    assert_type(asked, Answer[JsonValue])
    assert_type(asked.output, JsonValue)
    assert_type(asked.text, str)
    ticket = await client.ask("t", "hello", output=Ticket, on_busy="steer")
    assert_type(ticket, Answer[Ticket])
    assert_type(ticket.output.title, str)
    either = await client.ask("t", "hello", output=TypeAdapter[Ticket | int](Ticket | int))
    assert_type(either.output, Ticket | int)
    assert_type(await client.ask("t", "hello", output=list[Ticket]), Answer[list[Ticket]])


async def outputs_in_a_workflow() -> None:
    assert_type(await run_agent("a", "hello"), RunResult)
    assert_type(await run_agent("a", "hello", output_type=Ticket), Ticket)
    assert_type(await start_agent("a", "hello", output_type=Ticket), AgentHandle[Ticket])


def dependencies(tool: ToolContext[Database], gate: GateCall[Database], prompt: InstructionsContext[Database]) -> None:
    assert_type(tool.deps, Database)
    assert_type(gate.deps, Database)
    assert_type(prompt.deps, Database)
    assert_type(Registry(lifespan=lifespan).lifespan is None, bool)


def no_dependencies(tool: ToolContext) -> None:
    assert_type(tool.deps, object)


class Audit(Plugin[Settings, Database]):
    id = "audit"

    async def run_start(self, ctx: HookContext[Settings, Database]) -> None:
        assert_type(ctx.settings.limit, int)
        assert_type(await ctx.deps.query("SELECT 1"), list[str])

    def after_tool_execute(self, ctx: AfterToolExecute[Settings, Database]) -> None:
        assert_type(ctx.result, ToolResult)


class Plain(Plugin):
    id = "plain"

    def run_start(self, ctx: HookContext) -> None:
        assert_type(ctx.settings, NoSettings)


VISITS = StateKey("visits", int, default=0, merge="add")
SEEN = StateKey("seen", list[str], default=[], scope="thread", merge="append")
NAME: ProfileKey[str] = ProfileKey("name", str, default="")


async def state(state: State, ctx: ToolContext[Database]) -> None:
    assert_type(VISITS, StateKey[int])
    assert_type(state.get(VISITS), int)
    assert_type(state.get(SEEN), list[str])
    assert_type(await ctx.profiles.get("o", NAME), str)


def names_are_written_and_members_are_read() -> None:
    assert_type(Agent(id="a", tool_mode="parallel").tool_mode, ToolMode)
    assert_type(Rule(tool="pay", behavior="ask").behavior, Behavior)
    assert_type(PermissionPolicy(rules=[Rule(tool="pay", behavior="ask")]).rules, tuple[Rule, ...])
    assert_type(Decision(target="1-1", action="resume").action, DecisionAction)
    assert_type(RunRequest(agent_id="a", input=[InputMessage(content="x")], mode="thread").mode, ThreadMode)
    assert_type(ToolResult(tool_name="pay", status="error").status, ToolStatus)
    assert_type(StopPart("EndTurn").reason, StopReason)
    assert_type(InputMessage(content=[TextBlock(text="x")], role="system").role is Role.SYSTEM, bool)


def a_name_that_no_member_has_is_an_error() -> None:
    Agent(id="a", tool_mode="paralel")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Rule(tool="pay", behavior="perhaps")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    RunRequest(agent_id="a", mode="chat")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Decision(target="1-1", action="approve")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    StateKey("visits", int, default=0, scope="forever")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
