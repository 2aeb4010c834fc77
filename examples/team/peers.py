"""Two peers talk: a buyer and a seller, each on its own thread, while their worker is stopped and started again.

    python examples/team/peers.py

It needs a few seconds and no model: both agents follow a script.
"""

import asyncio
import re

from wakeful import Agent, Client, Message, Registry, Role, ScriptedModel, ThreadNotFound, call, say, tool
from wakeful.testing import Turn, embedded_server, running_worker

AGENT_MESSAGE = re.compile(r'<agent-message from="(\w+)" thread_id="\w+">\n(.*)\n</agent-message>')


@tool(read_only=True)
async def ponder() -> str:
    """Think for a second."""
    await asyncio.sleep(1)
    return "hm"


def write(to: str, message: str) -> Turn:
    """Send a message to an agent on the thread of the same name, which is started if it does not exist."""
    return call("send_message", to={"relation": "agent", "thread_id": to, "agent_id": to}, message=message)


# A message from the other agent is answered like one from a person: the first matching pattern selects the turns.
buyer_script = ScriptedModel(
    when={
        "249": [call("ponder"), write("seller", "Too much. I offer 199 each."), say("I offered 199.")],
        "219": [call("ponder"), write("seller", "Agreed, 219 each."), say("Ten machines at 219 each are coming.")],
    },
    turns=[write("seller", "How much are ten machines?"), say("I have asked the seller.")],
)
seller_script = ScriptedModel(
    when={
        "how much": [write("buyer", "They are 249 each."), say("I asked for 249.")],
        "199": [call("ponder"), write("buyer", "The best I can do is 219 each."), say("I went down to 219.")],
        "agreed": [say("Sold.")],
    }
)

registry = Registry(
    agents=[
        Agent(id="buyer", model="buyer", tools=[ponder], messages=["any"]),
        Agent(id="seller", model="seller", tools=[ponder], messages=["any"]),
    ],
    models={"buyer": buyer_script, "seller": seller_script},
)


async def follow(client: Client, printed: set[str], *, until: str) -> None:
    """Print what arrives on both threads and what the agents answer, until a line contains `until`."""
    while not any(until in line for line in printed):
        for thread in ("seller", "buyer"):
            for message in await messages(client, thread):
                if (line := line_of(thread, message)) and line not in printed:
                    printed.add(line)
                    print(line, flush=True)
        await asyncio.sleep(0.1)


async def messages(client: Client, thread: str) -> list[Message]:
    try:
        return await client.transcript(thread)
    except ThreadNotFound:  # it has not received a message yet
        return []


def line_of(thread: str, message: Message) -> str:
    if mail := AGENT_MESSAGE.match(message.text):
        return f"{mail[1]} to {thread}: {mail[2]}"
    return f"    {thread}: {message.text}" if message.role is Role.ASSISTANT and message.text else ""


async def main() -> None:
    printed: set[str] = set()
    async with embedded_server(ui=False) as server, asyncio.timeout(60):
        client = Client(server.client)
        async with running_worker(server.client, registry):
            await client.send("buyer", "Buy ten machines, please.", agent_id="buyer")
            await follow(client, printed, until="249 each")
        print("-- the worker is stopped while the buyer ponders; both threads sleep in Temporal")
        async with running_worker(server.client, registry):
            print("-- another worker has started")
            await follow(client, printed, until="are coming")


if __name__ == "__main__":
    asyncio.run(main())
