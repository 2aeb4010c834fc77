"""The tests' first app: agents of one thread each, with scripted models. `tests.support.app:registry` has all of them.

The second is `tests.support.subagent_app`, whose agents start any tree of sub-agents; the third is
`tests.support.provider_app`, whose agents call a fake model provider over HTTP.
"""

from tests.support.app import basic, gated, hooked, walking
from tests.support.app.basic import JOURNAL, TOOLS, Failing, Hanging, Recording, add, approve, note
from wakeful import Registry

__all__ = ["JOURNAL", "TOOLS", "Failing", "Hanging", "Recording", "add", "approve", "note", "registry"]

registry = Registry(
    agents=[*basic.AGENTS, *gated.AGENTS, *hooked.AGENTS, *walking.AGENTS],
    models={"default": basic.script, **gated.MODELS, **hooked.MODELS, **walking.MODELS},
)
