"""A handoff: a writer drafts, then hands the conversation over to a reviewer, who keeps it.

    python examples/team/reviewer.py

needs nothing but a few seconds. With OPENAI_API_KEY or ANTHROPIC_API_KEY set, a real model plays the same parts.
"""

import asyncio

from wakeful import Agent, Registry, ScriptedModel, call, default_model, say, tool
from wakeful.cli.process import run_and_leave
from wakeful.cli.terminal.render import event_lines
from wakeful.client.client import Client
from wakeful.contract.events import RunFinish
from wakeful.testing import runtime


@tool(read_only=True)
def count_words(text: str) -> int:
    """How many words a text has."""
    return len(text.split())


DRAFT = "The Mokka makes coffee that is very, very good."
BETTER = "The Mokka makes good coffee."

# One conversation, one script: the writer speaks its first line, the reviewer all others.
script = ScriptedModel(
    when={
        "write": [
            say(DRAFT) & call("handoff_to_reviewer", reason="the draft is ready"),
            call("count_words", text=DRAFT),
            say(f"{{result}} words are too many, and “very” says nothing. Better: {BETTER}"),
        ],
        "words": [call("count_words", text=BETTER), say("It has {result} words now.")],
    }
)

writer = Agent(
    id="writer",
    instructions="Write the one sentence you are asked for, then hand over to the reviewer in the same step.",
    handoffs=["reviewer"],
)
reviewer = Agent(
    id="reviewer",
    instructions="Review the newest sentence: count its words, then say in one line how to better it.",
    tools=[count_words],
)
registry = Registry(agents=[writer, reviewer], models={"default": default_model(offline=script)})


async def ask(client: Client, thread: str, text: str, *, after: int = 0, agent_id: str | None = None) -> int:
    """Say something and show what comes of it; gives the number of the last event."""
    print(f"you: {text}")
    await client.send(thread, text, agent_id=agent_id)
    async for record in client.watch(thread, after=after):
        after = record.seq
        for line in event_lines(record.event):
            print(f"  {line}", flush=True)
        if isinstance(record.event, RunFinish):
            break
    view = await client.status(thread)
    print(f"  (on the thread answers: {view.active_agent or view.identity.agent_id})\n")
    return after


async def main() -> None:
    async with runtime(registry) as client:
        seen = await ask(client, "leaflet", "Write a sentence about the Mokka for our leaflet.", agent_id="writer")
        await ask(client, "leaflet", "How many words are left?", after=seen)


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(main()), name="reviewer")
