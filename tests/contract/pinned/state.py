"""Pins of `wakeful.contract.state`, and of what carries it."""

from tests.contract.pinned.messages import CALL
from tests.contract.pinned.pin import Pin
from tests.contract.pinned.runs import IDENTITY
from wakeful.contract.carryover import Carryover
from wakeful.contract.state import StateAction, StateKeySpec, StateMerge, StateOp, StateScope, StateView
from wakeful.contract.tools import ToolCallInput

KEY = StateKeySpec(key="draft")
VISITS = StateKeySpec(key="visits", scope=StateScope.THREAD, merge=StateMerge.ADD, default=0)
OP = StateOp(key="visits", action=StateAction.MERGE, value=1)
VIEW = StateView(revision=3, values={"visits": 1})

PINS = (
    Pin(KEY, '{"key":"draft","scope":"run","merge":"exclusive"}'),
    Pin(VISITS, '{"key":"visits","scope":"thread","merge":"add","default":0}'),
    *(
        Pin(StateKeySpec(key="k", merge=merge), f'{{"key":"k","scope":"run","merge":"{word}"}}')
        for merge, word in {
            StateMerge.APPEND: "append",
            StateMerge.UNION: "union",
            StateMerge.MAX: "max",
            StateMerge.MIN: "min",
        }.items()
    ),
    Pin(OP, '{"key":"visits","action":"merge","value":1}'),
    Pin(StateOp(key="draft", action=StateAction.SET, value={"n": 1}), '{"key":"draft","action":"set","value":{"n":1}}'),
    Pin(StateOp(key="draft", action=StateAction.RESET), '{"key":"draft","action":"reset"}'),
    Pin(StateView(), '{"revision":0}'),
    Pin(VIEW, '{"revision":3,"values":{"visits":1}}'),
    Pin(Carryover(state={"visits": 1}), '{"spawned":0,"state":{"visits":1}}'),
    Pin(
        ToolCallInput(call=CALL, identity=IDENTITY, idempotency_key="t1/c1", state=VIEW, step=2),
        '{"call":{"id":"c1","name":"look","arguments":{"at":"Paris"}},"identity":{"thread_id":"t1",'
        '"run_id":"r1","agent_id":"assistant","origin":"user"},"idempotency_key":"t1/c1",'
        '"state":{"revision":3,"values":{"visits":1}},"step":2}',
    ),
)
