"""Pins of what forks are made of, in several modules of `wakeful.contract`."""

from tests.contract.pinned.pin import Pin
from wakeful.contract.carryover import Carryover
from wakeful.contract.inference import RestoreInput
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.requests import Fork, ForkPointRequest, RunRequest
from wakeful.contract.runs import ForkedFrom, RunIdentity
from wakeful.contract.views import EarlierExecution, ForkPointView, TranscriptPage

FORK = Fork(thread_id="t0", run_id="0190", step=12, messages=25)

PINS = (
    Pin(FORK, '{"thread_id":"t0","run_id":"0190","step":12,"messages":25}'),
    Pin(
        Fork(thread_id="t0", run_id="0190", step=12, messages=25, digest="d1"),
        '{"thread_id":"t0","run_id":"0190","step":12,"messages":25,"digest":"d1"}',
    ),
    Pin(
        RunRequest(agent_id="assistant", fork=FORK),
        '{"agent_id":"assistant","input":"","mode":"run",'
        '"fork":{"thread_id":"t0","run_id":"0190","step":12,"messages":25},"origin":"user"}',
    ),
    Pin(ForkedFrom(thread_id="t0", step=12), '{"thread_id":"t0","step":12}'),
    Pin(
        RunIdentity(thread_id="t1", run_id="r1", agent_id="assistant", forked_from=ForkedFrom(thread_id="t0", step=12)),
        '{"thread_id":"t1","run_id":"r1","agent_id":"assistant","origin":"user",'
        '"forked_from":{"thread_id":"t0","step":12}}',
    ),
    Pin(RestoreInput(run_id="0190", thread_id="t0", messages=25), '{"run_id":"0190","thread_id":"t0","messages":25}'),
    Pin(
        RestoreInput(run_id="0190", thread_id="t0", messages=25, digest="d1"),
        '{"run_id":"0190","thread_id":"t0","messages":25,"digest":"d1"}',
    ),
    Pin(EarlierExecution(run_id="0190", through=7, thread_id="t0"), '{"run_id":"0190","through":7,"thread_id":"t0"}'),
    Pin(ForkPointRequest(messages=25), '{"messages":25}'),
    Pin(ForkPointRequest(messages=25, digest="d1"), '{"messages":25,"digest":"d1"}'),
    Pin(ForkPointView(messages=25), '{"messages":25}'),
    Pin(
        ForkPointView(messages=25, digest="d1", carryover=Carryover(agent_id="assistant")),
        '{"messages":25,"digest":"d1","keeps":{"agent_id":"assistant","spawned":0}}',
    ),
    Pin(
        ForkPointView(messages=25, earlier=EarlierExecution(run_id="0190", through=30)),
        '{"messages":25,"earlier":{"run_id":"0190","through":30}}',
    ),
    Pin(
        TranscriptPage(messages=(), restoring=True, earlier=EarlierExecution(run_id="0190", through=0)),
        '{"messages":[],"restoring":true,"earlier":{"run_id":"0190","through":0}}',
    ),
    Pin(
        Carryover(run_state={"draft": "a"}, run_permissions=(Rule(tool="look", behavior=Behavior.DENY),)),
        '{"spawned":0,"run_state":{"draft":"a"},"run_permissions":[{"tool":"look","behavior":"deny"}]}',
    ),
)
