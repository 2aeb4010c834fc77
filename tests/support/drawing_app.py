"""Agents whose tool returns a picture, alone and as sub-agents."""

from wakeful import Agent, Registry, ScriptedModel, attachment, call, say, tool
from wakeful.contract.messages import ImageBlock

PNG = bytes.fromhex("89504e470d0a1a0a")
PICTURE = attachment(PNG)
assert isinstance(PICTURE, ImageBlock)


@tool(read_only=True)
def chart() -> list[object]:
    """Draw a chart."""
    return ["drawn", PICTURE]


model = ScriptedModel(
    when={
        "^draw": [call("chart"), say("here it is")],
        "^delegate": [call("agent_run_artist", prompt="draw"), say("{result}")],
        "^spawn": [call("spawn_agent", agent="artist", prompt="draw"), say("waiting"), say("done")],
    },
    strict=False,
)
registry = Registry(
    agents=[Agent(id="artist", tools=[chart]), Agent(id="boss", delegates=["artist"], spawns=["artist"])],
    models={"default": model},
)
