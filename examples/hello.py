import asyncio

from wakeful import Agent, Registry, default_model, tool
from wakeful.testing import ScriptedModel, call, runtime, say


@tool(read_only=True)
def stock(item: str) -> int:
    """How many pieces of an item are in stock."""
    return {"espresso machine": 3}.get(item, 0)


script = ScriptedModel([call("stock", item="espresso machine"), say("We have {result} of them.")])
buyer = Agent(id="buyer", instructions="Answer in one sentence.", tools=[stock])
registry = Registry(agents=[buyer], models={"default": default_model(offline=script)})


async def main() -> None:
    async with runtime(registry) as client:  # a Temporal server, a worker and a client
        result = await client.run("buyer", "How many espresso machines do we have?")
        print(result.response, f"({result.steps} steps, {result.status_reason})")


if __name__ == "__main__":
    asyncio.run(main())
