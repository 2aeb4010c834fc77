"""Hide tools from the model until it searches for them; those it has not used for a while are hidden again.

What is hidden is not forbidden: a call of a hidden tool is made. What may be called is for permissions to say.
"""

from typing import Literal

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
from wakeful.plugins.deferred_tools.searching import SELECT, search

SEARCH = "tool_search"

FINDERS = frozenset({SEARCH, "skill", "load_skill_resource", "skill_script"})
"""Tools by which a model finds others, or finds out what to do: they are shown unless a rule says otherwise."""

CATALOGUE_LIMIT = 8 * 1024
"""Characters of names that the model is told."""


class Promotion(BaseModel):
    """A tool was found or used, and at which step."""

    model_config = ConfigDict(frozen=True)

    tool: str
    step: int


PROMOTED: StateKey[list[Promotion]] = StateKey("deferred_tools.promoted", list[Promotion], merge="union", default=[])
"""Which tools are shown although they are deferred, and since when nobody has used them.

A union, as calls of one step may find and use tools at the same time."""


class DeferRule(BaseModel):
    """`tool` is a pattern for names, as permission rules have them: `mcp_*`."""

    model_config = ConfigDict(frozen=True)

    tool: str
    mode: Literal["eager", "deferred"]

    @field_validator("tool")
    @classmethod
    def _is_a_pattern(cls, tool: str) -> str:
        if parse_pattern(tool).arguments is not None:
            raise ValueError(f"{tool!r} speaks of arguments: tools are deferred by their names")
        return tool


class DeferredToolsSettings(BaseModel):
    rules: tuple[DeferRule, ...] = ()
    """The first one that fits a tool counts."""
    keep: int = Field(default=10, ge=0)
    """Of the tools that no rule fits, the first so many, by name, are always shown."""
    defer_after: int = Field(default=5, ge=1)
    """A tool that was found is hidden again after so many steps in which it was not used."""


@tool(name=SEARCH, read_only=True)
def tool_search(query: str, max_results: int = 5) -> None:
    """Find tools that are not shown yet; from the next step on, those that are found can be called.

    Args:
        query: Keywords, of which those with a + must be found; or select:name,other_name.
        max_results: How many tools to find at most.
    """
    raise ToolError(f"{query!r} was not searched for, up to {max_results}: the plugin 'deferred_tools' did not answer")


class DeferredTools(Plugin[DeferredToolsSettings]):
    """Tools that the model has to search for, with `tool_search`. Those of a front end and the runtime's own stay."""

    id = "deferred_tools"
    state = (PROMOTED,)
    tools = (tool_search,)

    def before_inference(self, ctx: BeforeInference[DeferredToolsSettings]) -> None:
        deferred = {tool.id for tool in deferrable(ctx)}
        shown = _forget_idle(ctx)
        if hidden := sorted(deferred - shown):
            ctx.exclude_tools(*hidden)
            ctx.tell_model("deferred_tools", _catalogue(hidden))
        elif not deferred:
            ctx.exclude_tools(SEARCH)

    def before_tool_execute(self, ctx: BeforeToolExecute[DeferredToolsSettings]) -> None:
        if ctx.call.name != SEARCH:
            return
        try:
            arguments = tool_search.parse(ctx.call.arguments)
        except ToolError:
            return  # the call is made, and says what is wrong with it
        found = search(deferrable(ctx), arguments["query"].strip(), max_results=max(1, arguments["max_results"]))
        ctx.state.union(PROMOTED, [Promotion(tool=tool.id, step=ctx.step) for tool in found])
        ctx.set_result({"tools": [{"name": tool.id, "description": tool.description} for tool in found]})

    def after_tool_execute(self, ctx: AfterToolExecute[DeferredToolsSettings]) -> None:
        if any(tool.id == ctx.call.name for tool in deferrable(ctx)):
            ctx.state.union(PROMOTED, [Promotion(tool=ctx.call.name, step=ctx.step)])


def deferrable(ctx: HookContext[DeferredToolsSettings]) -> tuple[ToolDescriptor, ...]:
    """The agent's tools that are shown only once they are found, by name."""
    denied = _denied(ctx)
    candidates = [tool for tool in ctx.agent.tools if tool.runtime is None and tool.id not in denied]
    modes = {tool.id: _ruled(tool.id, ctx.settings.rules) for tool in candidates}
    unruled = [id for id, mode in sorted(modes.items()) if mode is None and id not in FINDERS]
    deferred = {*unruled[ctx.settings.keep :], *(id for id, mode in modes.items() if mode == "deferred")}
    return tuple(tool for tool in candidates if tool.id in deferred - {SEARCH})


def _ruled(tool_id: str, rules: tuple[DeferRule, ...]) -> str | None:
    return next((rule.mode for rule in rules if parse_pattern(rule.tool).matches(tool_id, None)), None)


def _denied(ctx: HookContext[DeferredToolsSettings]) -> set[str | None]:
    """Tools that the agent may never call: the model is not shown them, and need not find them."""
    rules = ctx.agent.permissions.rules if ctx.agent.permissions else ()
    return {parse_pattern(rule.tool).whole_tool for rule in rules if rule.behavior is Behavior.DENY}


def _forget_idle(ctx: BeforeInference[DeferredToolsSettings]) -> set[str]:
    """The tools that were found or used lately. Older marks are dropped, or a long run would carry ever more of them.

    No call is under way before an inference, so nobody else's mark is lost.
    """
    marks = ctx.state.get(PROMOTED)
    latest = {mark.tool: mark.step for mark in sorted(marks, key=lambda mark: mark.step)}
    fresh = [
        Promotion(tool=tool, step=step)
        for tool, step in sorted(latest.items())
        if ctx.step - step <= ctx.settings.defer_after
    ]
    if len(fresh) < len(marks):
        ctx.state.reset(PROMOTED)
        ctx.state.union(PROMOTED, fresh)
    return {mark.tool for mark in fresh}


def _catalogue(hidden: list[str]) -> str:
    names = ", ".join(hidden)
    if len(names) > CATALOGUE_LIMIT:
        names = names[:CATALOGUE_LIMIT].rpartition(", ")[0] + ", …"
    return (
        f"<deferred_tools>\n{names}\n</deferred_tools>\n"
        f"These tools exist, but you cannot call them yet. Find those you need with {SEARCH}, by keywords or by "
        f'"{SELECT}name,other_name"; you can call what it finds from your next step on.'
    )
