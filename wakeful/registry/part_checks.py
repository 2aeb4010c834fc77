"""Check that each part of a registry is what it has to be: a list of agents, a mapping of models, and so on.

It comes before `checks.py`, which relies on it.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wakeful.authoring.a2a_source import A2aSource
from wakeful.authoring.agent import Agent
from wakeful.authoring.gate import Gate
from wakeful.authoring.mcp_server import McpServer
from wakeful.authoring.plugin import Plugin
from wakeful.authoring.profiles import ProfileKey
from wakeful.authoring.tool import Tool
from wakeful.contract.budgets import Price
from wakeful.contract.field_problems import shown, with_article
from wakeful.registry.content import RegistryParts

LISTED: Mapping[str, type | tuple[type, ...]] = {
    "agents": Agent,
    "agent_files": (str, Path),
    "sources": A2aSource,
    "tools": Tool,
    "gates": Gate,
    "plugins": Plugin,
    "mcp_servers": McpServer,
    "profile_keys": ProfileKey,
}
"""The parts that are lists, with what is in them."""

MAPPED = ("models", "providers", "prices", "inference_queues")

DECORATORS = {"tools": "@tool", "gates": "@gate"}


def part_problems(parts: RegistryParts) -> list[str]:
    """What has the wrong type, a line each."""
    given: Mapping[str, object] = {**parts}
    return [
        *(problem for part, kind in LISTED.items() for problem in _list_problems(part, kind, given.get(part, ()))),
        *(problem for part in MAPPED for problem in _mapping_problems(part, given.get(part, {}))),
    ]


def _list_problems(part: str, kind: type | tuple[type, ...], given: object) -> Iterator[str]:
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        yield f"Registry({part}=…) should be a list, not {shown(given)}: write {part}=[…]"
        return
    name = "path" if isinstance(kind, tuple) else kind.__name__
    for index, entry in enumerate(given):
        if isinstance(entry, kind):
            continue
        if part in DECORATORS and inspect.isroutine(entry):
            yield f"{part}[{index}]: {entry.__name__!r} is a plain function: decorate it with {DECORATORS[part]}"
        elif inspect.isclass(entry) and issubclass(entry, kind):
            yield f"{part}[{index}]: {entry.__name__!r} is a class: pass an instance, {entry.__name__}()"
        else:
            yield f"{part}[{index}] should be {with_article(name)}, not {shown(entry)}"


def _mapping_problems(part: str, given: object) -> Iterator[str]:
    if not isinstance(given, Mapping):
        yield f"Registry({part}=…) should be a dict by the id of the model, not {shown(given)}"
        return
    for id, entry in given.items():
        if part == "prices" and not isinstance(entry, Price):
            yield f"prices[{id!r}] should be a Price, not {shown(entry)}: write Price(input=…, output=…)"
        elif part == "inference_queues" and not isinstance(entry, str):
            yield f"inference_queues[{id!r}] should be the name of a task queue, not {shown(entry)}"
        elif part in ("models", "providers") and not (isinstance(entry, str) or _may_be_provider(entry)):
            named = "'provider/name', or a provider" if part == "models" else "a provider"
            yield f"{part}[{id!r}] should be {named}, not {shown(entry)}"


def _may_be_provider(entry: object) -> bool:
    return callable(entry) or any(callable(getattr(entry, method, None)) for method in ("complete", "stream"))
