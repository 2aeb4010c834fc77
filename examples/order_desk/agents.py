"""The agents: one arbiter for all shops, with the rules of the shop that the complaint belongs to."""

from examples.order_desk.database import Database, connect
from examples.order_desk.orders import DEADLINE, Ruling
from wakeful import (
    Agent,
    GateCall,
    InstructionsContext,
    ModelRequest,
    ModelResponse,
    Registry,
    ScriptedModel,
    ToolContext,
    ToolError,
    Verdict,
    call,
    default_model,
    gate,
    say,
    tool,
)


async def instructions(ctx: InstructionsContext[Database]) -> str:
    """Decides what customers get back."""
    rows = await ctx.deps.query("SELECT manner FROM shops WHERE tenant = ?", ctx.tenant)
    return f"You decide about complaints for the shop {ctx.tenant!r}. {rows[0][0] if rows else ''}"


@tool(read_only=True)
async def find_order(order_id: int, ctx: ToolContext[Database]) -> str:
    """Look up an order of this shop."""
    rows = await ctx.deps.query("SELECT item, price FROM orders WHERE tenant = ? AND id = ?", ctx.tenant, order_id)
    if not rows:
        raise ToolError(f"the shop {ctx.tenant!r} has no order {order_id}")
    return f"{rows[0][0]}, {rows[0][1]}"


@tool(idempotent=True)
async def refund(order_id: int, amount: int, ctx: ToolContext[Database]) -> Ruling:
    """Refund an order, or a part of it."""
    await ctx.deps.query(
        "INSERT OR IGNORE INTO refunds VALUES (?, ?, ?, ?)", ctx.idempotency_key, ctx.tenant, order_id, amount
    )
    return Ruling(refunded=amount, reason="it arrived broken")


@gate
async def refund_limit(call: GateCall[Database]) -> Verdict | None:
    """Ask a person about a refund above the limit of the shop."""
    if call.tool_name != "refund" or call.approved:
        return None
    rows = await call.deps.query("SELECT refund_limit FROM shops WHERE tenant = ?", call.tenant)
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    amount, limit = arguments.get("amount"), rows[0][0] if rows else 0
    if isinstance(amount, int) and amount <= limit:
        return None
    return call.suspend(
        f"{call.tenant} refunds up to {limit} without asking: refund {amount}?",
        expires_after=DEADLINE.total_seconds(),
        on_expiry="deny",
    )


class Script(ScriptedModel):
    """Plays the model, unless the environment has the key of one."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        answer = self.answer(request)
        if answer.tool_calls or answer.text.startswith("{"):
            return answer
        ruling = Ruling(refunded=0, reason="no person has agreed to it within two days")
        return answer.model_copy(update={"text": ruling.model_dump_json()})


SCRIPT = Script(
    when={
        f"Order {order_id}:": [
            call("find_order", order_id=order_id),
            call("refund", order_id=order_id, amount=amount),
            say("{result}"),
        ]
        for order_id, amount in ((1, 30), (2, 400))
    }
)

registry = Registry(
    agents=[
        Agent(
            id="arbiter",
            instructions=instructions,
            tools=[find_order, refund],
            gates=[refund_limit],
            output=Ruling,
        )
    ],
    models={"default": default_model(offline=SCRIPT)},
    lifespan=connect,
)
