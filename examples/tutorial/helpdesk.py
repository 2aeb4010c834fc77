"""The helpdesk of a shop for coffee machines."""

from pydantic import BaseModel

from offline import script
from wakeful import Agent, PermissionPolicy, Registry, Rule, ToolError, default_model, tool

ORDERS = {"1042": "an espresso machine for 249 EUR, delivered on Monday", "1043": "a grinder for 89 EUR, not yet sent"}


@tool(read_only=True)
def find_order(number: str) -> str:
    """Look up what was ordered, and where it is."""
    if number not in ORDERS:
        raise ToolError(f"there is no order {number!r}")
    return ORDERS[number]


@tool
def refund(number: str, euros: int) -> str:
    """Pay a customer's money back."""
    return f"{euros} EUR for order {number} arrive within three days"


helpdesk = Agent(
    id="helpdesk",
    instructions="You help the customers of a shop for coffee machines. Answer in one sentence.",
    tools=[find_order, refund],
    permissions=PermissionPolicy(default_behavior="allow", rules=[Rule(tool="refund", behavior="ask")]),
)


class Ticket(BaseModel):
    """What a message is about."""

    order: str
    wants_refund: bool
    urgent: bool


sorter = Agent(id="sorter", instructions="Sort the message of a customer.", output=Ticket)

registry = Registry(agents=[helpdesk, sorter], models={"default": default_model(offline=script)})
