"""Complain about an order, and wait for the answer.

python -m examples.order_desk.ask globex 1 "the lamp is broken"
"""

import asyncio
import sys

from examples.order_desk.orders import Complaint, OrderDesk
from examples.order_desk.worker import TASK_QUEUE, connect


async def main(tenant: str, order_id: str, text: str) -> None:
    client = await connect()
    complaint = Complaint(tenant=tenant, order_id=int(order_id), customer="ann", text=text)
    print(
        await client.execute_workflow(
            OrderDesk.run, complaint, id=f"complaint-{tenant}-{order_id}", task_queue=TASK_QUEUE
        )
    )
    # The SDK's native threads need a moment to leave Python; a program that ends right here may abort (SDK 1.35).
    await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
