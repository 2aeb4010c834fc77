from wakeful import Agent, Registry, ScriptedModel, ToolContext, call, default_model, say, tool


@tool
def order(item: str, pieces: int, ctx: ToolContext) -> str:
    """Order an item from the supplier. A person approves it first."""
    if ctx.resume_input is None:
        ctx.suspend(f"Order {pieces} x {item}?")
    return f"ordered {pieces} x {item}"


script = ScriptedModel([call("order", item="espresso machine", pieces=7), say("Done: {result}.")])
buyer = Agent(id="buyer", instructions="Keep ten of everything in stock.", tools=[order])
registry = Registry(agents=[buyer], models={"default": default_model(offline=script)})
