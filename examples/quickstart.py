from wakeful import Agent, Registry, ToolContext, tool


@tool(read_only=True)
def stock(item: str) -> int:
    """How many pieces are in stock."""
    return {"espresso machine": 3}.get(item, 0)


@tool
def order(item: str, pieces: int, ctx: ToolContext) -> str:
    """Order more from the supplier. A person approves it first."""
    if ctx.resume_input is None:
        ctx.suspend(f"Order {pieces} x {item}?")
    return f"ordered {pieces} x {item}"


buyer = Agent(
    id="buyer",
    instructions="Keep at least ten of everything in stock. Say what you did in one sentence.",
    tools=[stock, order],
)

registry = Registry(agents=[buyer])
