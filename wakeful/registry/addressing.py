"""The addresses of agents in a registry with several sources, and the names of the tools that reach them.

`weather` is the local agent of that name, or else that of the first source that has one; `local/weather` is only the
local one, and `partner/weather` only that of the source `partner`. An agent's own id has no source if it is local.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

from wakeful.authoring.agent import Agent
from wakeful.contract.names import LOCAL_SOURCE

LONGEST_TOOL_NAME = 64
DIGEST_LENGTH = 8

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_PREFIX = f"{LOCAL_SOURCE}/"


def find_agent(address: str, local: Mapping[str, Agent], discovered: Mapping[str, Agent]) -> Agent | None:
    """The agent that an address names.

    Args:
        discovered: by their ids, `source/agent`, in the order of the sources.
    """
    if (agent := local.get(address.removeprefix(_PREFIX))) is not None or address.startswith(_PREFIX):
        return agent
    if "/" in address:
        return discovered.get(address)
    return next((agent for id, agent in discovered.items() if id.partition("/")[2] == address), None)


def may_have(address: str, undiscovered: Iterable[str]) -> bool:
    """Whether one of these sources, whose agents are not known yet, may have the agent that an address names."""
    source, slash, _ = address.partition("/")
    return source in undiscovered if slash else any(undiscovered)


def local_id(address: str) -> str:
    """An address without the source, if that is the local one."""
    return address.removeprefix(_PREFIX)


def agent_tool_name(prefix: str, address: str) -> str:
    """The name of a tool that reaches an agent. Providers accept no slash: `agent_run_partner__weather`.

    The author of a local agent can rename it, so its id is not changed here.
    """
    id = local_id(address)
    if "/" not in id:
        return f"{prefix}{id}"
    name = f"{prefix}{_UNSAFE.sub('_', id.replace('/', '__'))}"
    if len(name) <= LONGEST_TOOL_NAME:
        return name
    digest = hashlib.sha256(id.encode()).hexdigest()[:DIGEST_LENGTH]
    return f"{name[: LONGEST_TOOL_NAME - DIGEST_LENGTH - 1]}_{digest}"
