"""What the worker opens once, what agents remember, and the tools and gates of the shop."""

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from pydantic import BaseModel, JsonValue

from examples.surface.attachments import manual
from wakeful import (
    FrontendTool,
    Gate,
    GateCall,
    ProfileConflict,
    ProfileEntry,
    ProfileKey,
    ProfileKeyNotFound,
    ProfileUnreadable,
    RetryLater,
    State,
    StateKey,
    Tool,
    ToolCallResume,
    ToolContext,
    ToolError,
    ToolKind,
    ToolResult,
    ToolStatus,
    Verdict,
    agent_owner,
    gate,
    thread_owner,
    tool,
)


@dataclass
class Shop:
    """The dependencies: in a real shop, a pool of database connections."""

    stock: dict[str, int] = field(default_factory=lambda: {"grinder": 3, "kettle": 0})
    refunds: dict[str, int] = field(default_factory=dict[str, int])
    stocktaking: bool = False


@contextlib.asynccontextmanager
async def open_shop() -> AsyncGenerator[Shop]:
    yield Shop()


class Ticket(BaseModel):
    """What the clerk answers."""

    summary: str
    refunded: int = 0


LOOKUPS = StateKey("shop.lookups", int, scope="run", merge="add", default=0)
SEEN = StateKey("shop.seen", list[str], scope="thread", merge="append", default=[])
LANGUAGE = ProfileKey("language", str, default="en")

CONFIRM = FrontendTool(id="confirm_address", description="Show the customer's address for confirmation.")


@tool(read_only=True, kind="search", metadata={"team": "warehouse"})
def stock(item: str, ctx: ToolContext[Shop]) -> int:
    """How many pieces of an item are in stock."""
    if ctx.deps.stocktaking:
        raise RetryLater("the stock is being counted", after=60)
    remember(ctx.state, item)
    if item not in ctx.deps.stock:
        raise ToolError(f"we do not sell {item!r}")
    return ctx.deps.stock[item]


def remember(state: State, item: str) -> None:
    state.add(LOOKUPS, 1)
    state.append(SEEN, item)


@tool(idempotent=True)
async def refund(order_id: int, amount: int, ctx: ToolContext[Shop]) -> ToolResult:
    """Refund an order. A person approves it first."""
    decision: ToolCallResume | None = ctx.resume_input
    if decision is None:
        ctx.suspend(f"Refund {amount} for order {order_id}?", expires_after=3600, on_expiry="deny")
    ctx.deps.refunds[ctx.idempotency_key] = amount
    await ctx.profiles.set(thread_owner(ctx.identity.thread_id), LANGUAGE, "en")
    return ToolResult(tool_name="refund", status="success", data={"refunded": amount, "by": decision.actor})


@tool
async def greet(ctx: ToolContext[Shop]) -> str:
    """Greet the customer in the language of the shop."""
    try:
        language = await ctx.profiles.get(agent_owner("clerk"), LANGUAGE)
    except (ProfileKeyNotFound, ProfileUnreadable, ProfileConflict) as error:
        raise ToolError(f"the profile cannot be used: {error}") from error
    return {"de": "Guten Tag!", "en": "Hello!"}.get(language, "Hello!")


def describe_entry(entry: ProfileEntry) -> str:
    return f"{entry.key} = {entry.value!r}, revision {entry.revision}"


@gate
def small_refunds(call: GateCall[Shop]) -> Verdict | None:
    """Refuse what no clerk may do, and answer for what the shop cannot do."""
    arguments: JsonValue = call.arguments
    amount = arguments.get("amount") if isinstance(arguments, dict) else None
    if call.tool_kind is ToolKind.EDIT and isinstance(amount, int) and amount > 1000:
        return call.block("a refund above 1000 needs the management")
    if call.tool_name == "stock" and not call.deps.stock:
        return call.result({"pieces": 0})
    return None


TOOLS: list[Tool] = [stock, refund, greet, manual]
GATES: list[Gate] = [small_refunds]


def failed(result: ToolResult) -> bool:
    return result.status is ToolStatus.ERROR
