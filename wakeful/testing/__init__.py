"""Test your agents: a real Temporal server, a worker and a client in one `async with`.

    async with runtime(registry) as client:
        result = await client.run("assistant", "hello")

With a `ScriptedModel` such a test needs no network and no API key, and runs the same code as production.
docs/testing-agents.md is the guide; `wakeful.pytest_plugin` has the fixtures for pytest.
"""

from wakeful.authoring.scripted import ScriptedModel, Turn, call, say
from wakeful.authoring.tool_context import SuspendCall
from wakeful.authoring.unexpected_call import UnexpectedModelCall
from wakeful.connection import embedded_server
from wakeful.testing.contexts import RecordingToolContext, make_gate_call, make_identity, make_tool_context
from wakeful.testing.decisions import NoDecision, wait_for_decision
from wakeful.testing.recorded import RecordedModel
from wakeful.testing.runtimes import WakefulRuntime, runtime
from wakeful.testing.servers import fresh_namespace
from wakeful.testing.skipping import skip_time
from wakeful.worker import running_worker

__all__ = [
    "NoDecision",
    "RecordedModel",
    "RecordingToolContext",
    "ScriptedModel",
    "SuspendCall",
    "Turn",
    "UnexpectedModelCall",
    "WakefulRuntime",
    "call",
    "embedded_server",
    "fresh_namespace",
    "make_gate_call",
    "make_identity",
    "make_tool_context",
    "running_worker",
    "runtime",
    "say",
    "skip_time",
    "wait_for_decision",
]
