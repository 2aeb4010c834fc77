"""Ask the helpdesk: python ask.py THREAD TEXT"""

import asyncio
import sys

from wakeful import Client, DecisionNeeded, connect


async def main(thread_id: str, text: str) -> None:
    client = Client(await connect())
    try:
        answer = await client.ask(thread_id, text, agent_id="helpdesk")
        print(answer.text)
    except DecisionNeeded:
        print("A colleague will look into it.")


asyncio.run(main(*sys.argv[1:]))
