"""The agents of `wakeful demo` and `wakeful dev`: a shop assistant that looks orders up and asks before it refunds."""

from wakeful import Agent, Registry, ScriptedModel, ToolContext, call, default_model, say, tool

ORDERS = {"1042": {"item": "espresso machine", "price": 249.0, "state": "delivered, reported broken"}}


@tool(read_only=True)
def look_up_order(order_id: str) -> dict[str, object]:
    """Find an order.

    Args:
        order_id: The number on the customer's receipt.
    """
    order = ORDERS.get(order_id)
    return {"order_id": order_id, **order} if order else {"error": f"there is no order {order_id}"}


@tool(idempotent=True)
def refund(order_id: str, amount: float, ctx: ToolContext) -> dict[str, object]:
    """Pay a customer's money back. A person has to approve it first.

    Args:
        order_id: The order to refund.
        amount: How much, in euros.
    """
    if ctx.resume_input is None:
        ctx.suspend(f"Refund {amount:.2f} EUR for order {order_id}?")
    return {"refunded": amount, "order_id": order_id, "receipt": f"R-{ctx.idempotency_key[:8]}"}


script = ScriptedModel(
    [say("You said: {input}\nAsk me about a refund of order 1042 to see me work.")],
    when={
        "refund|order|money": [
            call("look_up_order", order_id="1042"),
            say("Order 1042 arrived broken. I ask for the refund. ") & call("refund", order_id="1042", amount=249.0),
            say("Done: {result}"),
        ]
    },
    strict=False,
)

assistant = Agent(
    id="assistant",
    instructions=(
        "You help customers of a small shop. Look an order up before you talk about it. "
        "Refund what arrived broken. Be brief."
    ),
    tools=[look_up_order, refund],
)

registry = Registry(agents=[assistant], models={"default": default_model(offline=script)})
