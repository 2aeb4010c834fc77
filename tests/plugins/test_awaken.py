"""The awaken runtime's own test of the plugins of a delegate, under its name."""

from tests.plugins.conftest import Serving
from wakeful import Agent, HookContext, Plugin, Registry, ScriptedModel, call, say


class Binding(Plugin):
    id = "binding"

    def __init__(self) -> None:
        self.activated_in: list[str] = []

    def on_activate(self, ctx: HookContext) -> None:
        self.activated_in.append(ctx.identity.thread_id)


async def test_execute_delegate_binds_plugin_runtime_context(serving: Serving, thread_id: str) -> None:
    """The plugins of a delegate's agent are activated once, in the delegate's own run."""
    binding = Binding()
    helping = ScriptedModel([say("delegated response")])
    registry = Registry(
        agents=[
            Agent(id="lead", delegates=["helper"]),
            Agent(id="helper", model="helping", plugins=[binding]),
        ],
        models={"default": ScriptedModel([call("agent_run_helper", prompt="hello"), say("done")]), "helping": helping},
    )
    async with serving(registry) as client:
        result = await client.run("lead", "go", thread_id=thread_id)
        (child,) = (await client.tree(thread_id)).children
        delegated = await client.result(child.thread_id)
    assert (result.status_reason, delegated.response) == ("natural", "delegated response")
    assert binding.activated_in == [child.thread_id]
