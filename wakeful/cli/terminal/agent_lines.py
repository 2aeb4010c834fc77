"""Agents as lines for a terminal, and as JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import get_args

from wakeful.cli.terminal.text import aligned, printable
from wakeful.contract.capabilities import CapabilityProfile, Feature, unsupported
from wakeful.registry.listing import ListedAgent

MOST_CHARACTERS = 60
"""Of an agent's description."""


def agent_lines(agents: Sequence[ListedAgent]) -> list[str]:
    """A table of agents; no lines if there are none."""
    if not agents:
        return []
    rows = [("AGENT", "SOURCE", "SUPPORTS", "TOOLS", "DESCRIPTION"), *(_row(agent) for agent in agents)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [aligned(row, widths) for row in rows]


def agent_json(agents: Sequence[ListedAgent]) -> list[str]:
    """An agent per line."""
    return [json.dumps({**asdict(agent), "capabilities": agent.capabilities.model_dump()}) for agent in agents]


def failure_json(failures: Mapping[str, str]) -> list[str]:
    """A line for each source that failed."""
    return [json.dumps({"source": name, "error": why}) for name, why in failures.items()]


def _row(agent: ListedAgent) -> tuple[str, str, str, str, str]:
    return (
        printable(agent.id),
        printable(agent.source),
        _supports(agent.capabilities),
        printable(", ".join(agent.tools)) or "none",
        _shortened(printable(agent.description)),
    )


def _supports(capabilities: CapabilityProfile) -> str:
    missing = unsupported(get_args(Feature), capabilities)
    return f"no {', '.join(missing)}" if missing else "everything"


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
