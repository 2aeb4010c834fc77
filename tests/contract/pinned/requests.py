"""Pins of `wakeful.contract.requests`."""

from tests.contract.pinned.budgets import BUDGET
from tests.contract.pinned.pin import Pin
from wakeful.contract.inference import InferenceOverrides
from wakeful.contract.messages import InputMessage
from wakeful.contract.requests import CancelRequest, PageRequest, RunRequest, Submission, UndeliveredRequest
from wakeful.contract.runs import OnBusy, Origin, ThreadMode
from wakeful.contract.subagents import SubagentContext
from wakeful.contract.tools import FrontendTool

PINS = (
    Pin(
        RunRequest(agent_id="assistant", input="hello"),
        '{"agent_id":"assistant","input":"hello","mode":"run","origin":"user"}',
    ),
    Pin(
        RunRequest(
            agent_id="assistant",
            input=(InputMessage(content="hello", id="m1"),),
            mode=ThreadMode.THREAD,
            restore_from="0190",
            title="A greeting",
            frontend_tools=(FrontendTool(id="pick", description="Pick a colour."),),
            parent_thread_id="t0",
            parent_run_id="r0",
            parent_tool_call_id="c0",
            session_id="s1",
            transport_request_id="q1",
            origin=Origin.INTERNAL,
            overrides=InferenceOverrides(upstream_model="model-2"),
        ),
        '{"agent_id":"assistant","input":[{"content":"hello","role":"user","id":"m1",'
        '"visibility":"all"}],"mode":"thread","restore_from":"0190","title":"A greeting",'
        '"frontend_tools":[{"id":"pick",'
        '"description":"Pick a colour.","parameters":{"type":"object","properties":{}}}],'
        '"parent_thread_id":"t0","parent_run_id":"r0","parent_tool_call_id":"c0","session_id":"s1",'
        '"transport_request_id":"q1","origin":"internal","overrides":{"upstream_model":"model-2"}}',
    ),
    Pin(Submission(input="and then?"), '{"input":"and then?","on_busy":"enqueue"}'),
    Pin(
        Submission(
            input=(InputMessage(content="and then?", id="m2"),),
            on_busy=OnBusy.ROLLBACK,
            agent_id="researcher",
            overrides=InferenceOverrides(max_tokens=9),
        ),
        '{"input":[{"content":"and then?","role":"user","id":"m2","visibility":"all"}],"on_busy":"rollback",'
        '"agent_id":"researcher","overrides":{"max_tokens":9}}',
    ),
    Pin(CancelRequest(), "{}"),
    Pin(CancelRequest(reason="too slow"), '{"reason":"too slow"}'),
    Pin(PageRequest(), '{"after":0,"limit":200}'),
    Pin(
        RunRequest(
            agent_id="clerk", input="Add up.", budget=BUDGET, subagent=SubagentContext(path=("t1",), work_id="c1")
        ),
        '{"agent_id":"clerk","input":"Add up.","mode":"run","origin":"user","budget":{"tokens":1000},'
        '"family":{"path":["t1"],"work_id":"c1"}}',
    ),
    Pin(UndeliveredRequest(action="replay"), '{"action":"replay"}'),
    Pin(UndeliveredRequest(action="clear"), '{"action":"clear"}'),
)
