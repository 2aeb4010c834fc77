"""A research team: a lead starts three researchers in the background, reads their reports, and sums up.

    python examples/team/research.py

It needs a few seconds. With OPENAI_API_KEY or ANTHROPIC_API_KEY set, a real model plays all agents.
"""

import asyncio
import json

from wakeful import (
    Agent,
    ModelRequest,
    ModelResponse,
    Registry,
    ScriptedModel,
    TreeNode,
    call,
    default_model,
    say,
    tool,
)
from wakeful.testing import runtime

FOUND = {
    "prices": (1, "The Mokka costs 249, the Crema 199."),
    "reviews": (2, "The Mokka has 4.6 stars, the Crema 3.1."),
    "returns": (3, "Of the Mokkas 2% came back, of the Cremas 17%."),
}


@tool(read_only=True)
async def search(topic: str) -> str:
    """Look something up, which takes a while.

    Args:
        topic: prices, reviews or returns.
    """
    seconds, found = FOUND.get(topic, (0, "Nothing was found."))
    await asyncio.sleep(seconds)
    return found


class LeadScript:
    """The lead without a model: it starts all researchers at once, and sums up when all have reported."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        texts = [message.text for message in request.messages]
        events = [json.loads(text.splitlines()[1]) for text in texts if text.startswith("<background-task-event")]
        reports = [event["result"]["response"] for event in events]
        turn = say(f"{len(reports)} of {len(FOUND)} have reported.")
        if len(texts) == 1:
            for topic in FOUND:
                turn &= call("spawn_agent", agent="researcher", name=topic, prompt=f"Find out about {topic}.")
        elif len(reports) == len(FOUND):
            turn = say("Stock the Mokka. " + " ".join(reports))
        return ScriptedModel([turn] * 10).answer(request)  # the same turn, at whatever step it is


LATER = "The records of returns go back three years: this takes longer."

researcher_script = ScriptedModel(
    when={
        "prices": [call("search", topic="prices"), say("{result}")],
        "reviews": [call("search", topic="reviews"), say("{result}")],
        "returns": [
            call("send_message", to={"relation": "parent"}, message=LATER),
            call("search", topic="returns"),
            say("{result}"),
        ],
    }
)

lead = Agent(
    id="lead",
    instructions=(
        f"Start one researcher for each of {', '.join(FOUND)}, all in one step, named after it. "
        "When all have reported, recommend one machine in two sentences."
    ),
    model="lead",
    spawns=["researcher"],
)
researcher = Agent(
    id="researcher",
    instructions="Tell your parent what you are about to do, search once, and answer with what you found.",
    model="researcher",
    tools=[search],
    messages=True,
)
registry = Registry(
    agents=[lead, researcher],
    models={"lead": default_model(offline=LeadScript()), "researcher": default_model(offline=researcher_script)},
)


def print_tree(tree: TreeNode, indent: str = "") -> None:
    name = f" ({tree.name})" if tree.name else ""
    waits = f", waits for {tree.waiting_for}" if tree.waiting_for else ""
    print(f"{indent}{tree.agent_id}{name}: {tree.status.value} after {tree.steps} steps{waits}", flush=True)
    for child in tree.children:
        print_tree(child, f"{indent}    ")


async def main() -> None:
    async with runtime(registry) as client:
        thread = await client.start("lead", "Which espresso machine should we stock, the Mokka or the Crema?")
        async for tree in client.watch_tree(thread, every=0.5):
            print_tree(tree)
            print()
        print("What the lead received meanwhile:\n")
        for message in await client.transcript(thread):
            if message.text.startswith(("<background-task-event", "<agent-message")):
                print(message.text)
        print("\nlead:", (await client.result(thread)).response)


if __name__ == "__main__":
    asyncio.run(main())
