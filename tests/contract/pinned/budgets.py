"""Pins of `wakeful.contract.budgets`."""

from tests.contract.pinned.pin import Pin
from wakeful.contract.budgets import Budget, Price, Spent

BUDGET = Budget(tokens=1000)
SPENT = Spent(tokens=7, cost=0.5, turns=2, tool_calls=1)

PINS = (
    Pin(Budget(), "{}"),
    Pin(BUDGET, '{"tokens":1000}'),
    Pin(
        Budget(tokens=1000, cost=0.5, turns=3, tool_calls=4, seconds=60),
        '{"tokens":1000,"cost":0.5,"turns":3,"tool_calls":4,"seconds":60.0}',
    ),
    Pin(Spent(), '{"tokens":0,"cost":0.0,"turns":0,"tool_calls":0}'),
    Pin(SPENT, '{"tokens":7,"cost":0.5,"turns":2,"tool_calls":1}'),
    Pin(Price(input=1.25, output=10), '{"input":1.25,"output":10.0}'),
    Pin(Price(input=1.25, output=10, cached_input=0.125), '{"input":1.25,"output":10.0,"cached_input":0.125}'),
)
