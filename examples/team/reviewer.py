"""A handoff: a writer drafts, then hands the conversation off to a reviewer, who keeps it.

    python examples/team/reviewer.py

It needs a few seconds. With OPENAI_API_KEY or ANTHROPIC_API_KEY set, a real model plays both agents.
"""

import asyncio

from wakeful import (
    Agent,
    Client,
    EventRecord,
    Handoff,
    Registry,
    RunFinish,
    ScriptedModel,
    TextDelta,
    ToolCallDone,
    call,
    default_model,
    say,
    tool,
)
from wakeful.testing import runtime


@tool(read_only=True)
def count_words(text: str) -> int:
    """How many words a text has."""
    return len(text.split())


DRAFT = "The Mokka makes coffee that is very, very good."
BETTER = "The Mokka makes good coffee."

# One conversation, one script: the writer plays its first turn, the reviewer all others.
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
    instructions="Write the one sentence you are asked for, then hand off to the reviewer in the same step.",
    handoffs=["reviewer"],
)
reviewer = Agent(
    id="reviewer",
    instructions="Review the newest sentence: count its words, then say in one line how to improve it.",
    tools=[count_words],
)
registry = Registry(agents=[writer, reviewer], models={"default": default_model(offline=script)})


async def ask(client: Client, thread: str, text: str, *, after: int = 0, agent_id: str | None = None) -> int:
    """Send a message and print the events until the run ends; returns the number of the last event."""
    print(f"you: {text}")
    await client.send(thread, text, agent_id=agent_id)
    async for record in client.watch(thread, after=after):
        after = record.seq
        print_event(record)
        if isinstance(record.event, RunFinish):
            break
    return after


def print_event(record: EventRecord) -> None:
    match record.event:
        case TextDelta(delta=text):
            print(f"  {record.agent_id}: {text}", flush=True)
        case ToolCallDone(result=result):
            print(f"  {result.tool_name}: {result.text}", flush=True)
        case Handoff(from_agent=before, to_agent=after):
            print(f"  -- {before} hands off to {after}", flush=True)
        case _:
            pass


async def main() -> None:
    async with runtime(registry) as client:
        seen = await ask(client, "leaflet", "Write a sentence about the Mokka for our leaflet.", agent_id="writer")
        await ask(client, "leaflet", "How many words are left?", after=seen)


if __name__ == "__main__":
    asyncio.run(main())
