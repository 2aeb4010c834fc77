"""An agent with a sync hook that never returns."""

import threading

from wakeful import Agent, HookContext, Plugin, Registry, ScriptedModel, say


class Hanging(Plugin):
    """Hangs before every step."""

    id = "hanging"
    timeout = 0.1

    def step_start(self, ctx: HookContext) -> None:
        threading.Event().wait()


agent = Agent(id="patient", model="script", plugins=[Hanging()])
registry = Registry(agents=[agent], models={"script": ScriptedModel([say("at last")])})
