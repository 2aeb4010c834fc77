"""Sort a message."""

import asyncio

from helpdesk import Ticket
from wakeful import Client, connect


async def main() -> None:
    client = Client(await connect())
    answer = await client.ask("mail-1", "The machine of order 1042, it leaks!", agent_id="sorter", output=Ticket)
    print(repr(answer.output))


asyncio.run(main())
