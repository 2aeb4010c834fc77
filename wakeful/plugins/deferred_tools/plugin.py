"""Leave tools out of requests until the model searches for them; those it has not used for a while are left out again.

A hidden tool is not forbidden: if the model calls it anyway, the call runs. Use permissions to forbid tools.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from wakeful import (
    AfterToolExecute,
    BeforeInference,
    BeforeToolExecute,
    Behavior,
    HookContext,
    Plugin,
    StateKey,
    ToolDescriptor,
    ToolError,
    parse_pattern,
    tool,
)
from wakeful.plugins.deferred_tools.search import SELECT, search

SEARCH = "tool_search"

FINDERS = frozenset({SEARCH, "skill", "load_skill_resource", "skill_script"})
"""Tools with which a model finds tools and instructions: never deferred, unless a rule says so."""

CATALOGUE_LIMIT = 8 * 1024
"""Characters of the list of deferred tools."""


class Promotion(BaseModel):
    """A deferred tool that was found or used, and the step in which it was."""

    model_config = ConfigDict(frozen=True)

    tool: str
    step: int


PROMOTED: StateKey[list[Promotion]] = StateKey("deferred_tools.promoted", list[Promotion], merge="union", default=[])
"""The deferred tools that requests include, and when each was last used.

A union, because parallel calls of one step may find and use tools."""


class DeferRule(BaseModel):
    """Whether tools are deferred. `tool` is a name pattern as in permission rules, such as `mcp_*`."""

    model_config = ConfigDict(frozen=True)

    tool: str
    mode: Literal["eager", "deferred"]

    @field_validator("tool")
    @classmethod
    def _is_a_pattern(cls, tool: str) -> str:
        if parse_pattern(tool).arguments is not None:
            raise ValueError(f"{tool!r} has arguments: tools are deferred by name only")
        return tool


class DeferredToolsSettings(BaseModel):
    rules: tuple[DeferRule, ...] = ()
    """The first rule that matches a tool counts."""
    keep: int = Field(default=10, ge=0)
    """How many of the tools that no rule matches are always included: the first ones by name."""
    defer_after: int = Field(default=5, ge=1)
    """After how many steps without use a tool that was found is hidden again."""

    if TYPE_CHECKING:

        def __init__(self, *, rules: Sequence[DeferRule] = ..., keep: int = ..., defer_after: int = ...) -> None: ...


@tool(name=SEARCH, read_only=True)
def tool_search(query: str, max_results: int = 5) -> None:
    """Find tools that you cannot call yet, such as those in <deferred_tools>.

    Returns their names and descriptions, the best match first. You can call them from your next step on. An empty list
    means that no tool matches: try other keywords.

    Args:
        query: Keywords to look for in names and descriptions; put a + in front of those that must match. If you know
            the names, use select: instead, as in select:name,other_name.
        max_results: The maximum number of tools to return for keywords.
    """
    raise ToolError(f"cannot search for {query!r} (max_results {max_results}): the plugin 'deferred_tools' did not run")


class DeferredTools(Plugin[DeferredToolsSettings]):
    """Defers tools until the model finds them with `tool_search`; never frontend tools or the runtime's own."""

    id = "deferred_tools"
    state = (PROMOTED,)
    tools = (tool_search,)

    def before_inference(self, ctx: BeforeInference[DeferredToolsSettings]) -> None:
        deferred = {tool.id for tool in deferrable(ctx)}
        included = _recent(ctx)
        if hidden := sorted(deferred - included):
            ctx.exclude_tools(*hidden)
            ctx.add_context("deferred_tools", _catalogue(hidden))
        elif not deferred:
            ctx.exclude_tools(SEARCH)

    def before_tool_execute(self, ctx: BeforeToolExecute[DeferredToolsSettings]) -> None:
        if ctx.call.name != SEARCH:
            return
        try:
            arguments = tool_search.parse(ctx.call.arguments)
        except ToolError:
            return  # the call runs, and its result says what is wrong with the arguments
        found = search(deferrable(ctx), arguments["query"].strip(), max_results=max(1, arguments["max_results"]))
        ctx.state.union(PROMOTED, [Promotion(tool=tool.id, step=ctx.step) for tool in found])
        ctx.set_result({"tools": [{"name": tool.id, "description": tool.description} for tool in found]})

    def after_tool_execute(self, ctx: AfterToolExecute[DeferredToolsSettings]) -> None:
        if any(tool.id == ctx.call.name for tool in deferrable(ctx)):
            ctx.state.union(PROMOTED, [Promotion(tool=ctx.call.name, step=ctx.step)])


def deferrable(ctx: HookContext[DeferredToolsSettings]) -> tuple[ToolDescriptor, ...]:
    """The agent's tools that requests leave out until they are found."""
    denied = _denied(ctx)
    candidates = [tool for tool in ctx.agent.tools if tool.runtime is None and tool.id not in denied]
    modes = {tool.id: _mode(tool.id, ctx.settings.rules) for tool in candidates}
    without_rule = [id for id, mode in sorted(modes.items()) if mode is None and id not in FINDERS]
    deferred = {*without_rule[ctx.settings.keep :], *(id for id, mode in modes.items() if mode == "deferred")}
    return tuple(tool for tool in candidates if tool.id in deferred - {SEARCH})


def _mode(tool_id: str, rules: tuple[DeferRule, ...]) -> str | None:
    return next((rule.mode for rule in rules if parse_pattern(rule.tool).matches(tool_id, None)), None)


def _denied(ctx: HookContext[DeferredToolsSettings]) -> set[str | None]:
    """Tools that the agent may never call: requests leave them out, and the search must not find them."""
    rules = ctx.agent.permissions.rules if ctx.agent.permissions else ()
    return {parse_pattern(rule.tool).whole_tool for rule in rules if rule.behavior is Behavior.DENY}


def _recent(ctx: BeforeInference[DeferredToolsSettings]) -> set[str]:
    """The tools that were found or used recently. Older promotions are removed: a long run must not accumulate them.

    No tool call runs before an inference, so no concurrent promotion is lost.
    """
    promotions = ctx.state.get(PROMOTED)
    latest = {promotion.tool: promotion.step for promotion in sorted(promotions, key=lambda each: each.step)}
    recent = [
        Promotion(tool=tool, step=step)
        for tool, step in sorted(latest.items())
        if ctx.step - step <= ctx.settings.defer_after
    ]
    if len(recent) < len(promotions):
        ctx.state.reset(PROMOTED)
        ctx.state.union(PROMOTED, recent)
    return {promotion.tool for promotion in recent}


def _catalogue(hidden: list[str]) -> str:
    names = ", ".join(hidden)
    if len(names) > CATALOGUE_LIMIT:
        names = names[:CATALOGUE_LIMIT].rpartition(", ")[0] + ", …"
    return (
        f"<deferred_tools>\n{names}\n</deferred_tools>\n"
        f"These tools exist, but you cannot call them yet. To use one, call {SEARCH} first, with keywords or with "
        f'"{SELECT}name,other_name". You can call the tools that it finds from your next step on.'
    )
