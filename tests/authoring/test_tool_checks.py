"""What `@tool`, `StateKey` and `ScriptedModel` refuse, and what they say."""

import warnings
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic_ai import RunContext

from wakeful import Agent, ConfigurationError, GateCall, HookContext, ScriptedModel, StateKey, ToolContext, say, tool


def count(item: str) -> int:
    """Count."""
    return len(item)


class Counter:
    def __call__(self, item: str) -> int:
        return len(item)


def undocumented(item: str) -> int:
    return len(item)


def with_other_context(ctx: GateCall) -> None: ...


def of_pydantic_ai(ctx: RunContext[Counter], item: str) -> None: ...


def with_hook_context(ctx: HookContext[Any, Any]) -> None: ...


def with_unknown_type(item: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def with_strange_type(item: Counter) -> None: ...


untyped_tool: Any = tool
untyped_key: Any = StateKey
untyped_script: Any = ScriptedModel

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a text": (lambda: untyped_tool("count"), "@tool decorates a function, and was given 'count'"),
    "a class": (lambda: untyped_tool(Counter), "@tool decorates a function, and was given the class 'Counter'"),
    "a tool": (lambda: untyped_tool(tool(count)), "'count' is a Tool already: @tool decorates a function, once"),
    "a lambda": (lambda: untyped_tool(lambda: 3), "@tool was given a lambda, which has no name: pass one"),
    "an object": (lambda: untyped_tool(Counter()), "@tool was given a Counter, which has no name: pass one"),
    "a name": (lambda: untyped_tool(name="my tool!")(count), "tool 'my tool!' has a name that model providers refuse"),
    "a kind": (lambda: untyped_tool(kind="reed")(count), "tool 'count': kind should be 'execute'"),
    "seconds": (
        lambda: untyped_tool(timeout=timedelta(1))(count),
        "timeout is a timedelta; it must be a number of seconds",
    ),
    "no seconds": (
        lambda: untyped_tool(heartbeat_timeout=0)(count),
        "heartbeat_timeout is 0; it must be a number of seconds above 0",
    ),
    "metadata": (
        lambda: untyped_tool(metadata={"at": datetime.now()})(count),
        "the metadata of tool 'count' is not JSON: at: ",
    ),
    "a list": (lambda: untyped_tool(metadata=[1])(count), "the metadata of tool 'count' is not JSON: "),
    "an object with a name": (
        lambda: untyped_tool(name="c")(Counter()),
        "tool 'c' is a Counter, whose types cannot be read",
    ),
    "a gate's context": (lambda: untyped_tool(with_other_context), "'ctx' is a GateCall: a tool gets a ToolContext"),
    "pydantic-ai's context": (
        lambda: untyped_tool(of_pydantic_ai),
        "'ctx' is a RunContext: a tool gets a ToolContext, so annotate it as ctx: ToolContext[Counter]",
    ),
    "a hook's context": (lambda: untyped_tool(with_hook_context), "'ctx' is a HookContext: a tool gets a ToolContext"),
    "an unknown type": (
        lambda: untyped_tool(with_unknown_type),
        "a type cannot be resolved: name 'Nowhere' is not defined; import",
    ),
    "a strange type": (
        lambda: untyped_tool(with_strange_type),
        "Use types that pydantic knows: a pydantic model, a dataclass",
    ),
    "a merge": (
        lambda: untyped_key("n", int, merge="ad", default=0),
        "state key 'n': merge should be 'exclusive', 'add'",
    ),
    "a scope": (
        lambda: untyped_key("n", int, scope="threads", default=0),
        "state key 'n': scope should be 'run' or 'thread'",
    ),
    "texts": (lambda: untyped_script(["hi"]), "a ScriptedModel takes a list of say(…) and call(…), not 'hi'"),
    "one text": (lambda: untyped_script(when={"x": "hi"}), "takes a list of say(…) and call(…), not 'hi'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_it_says_what_is_wrong(wrong: str) -> None:
    make, problem = WRONG[wrong]
    with pytest.raises(ConfigurationError) as raised:
        make()
    assert problem in str(raised.value)


def test_what_has_no_name_of_its_own_is_a_tool_by_the_name_that_it_is_given() -> None:
    assert tool(name="add")(lambda: 3).name == "add"
    assert tool(name="count")(Counter().__call__).name == "count"


def test_a_tool_takes_its_own_context() -> None:
    @tool(kind="read", metadata={"team": "shop"})
    def look(ctx: ToolContext) -> str:
        """Look."""
        return ctx.call_id

    assert (look.context_parameter, look.descriptor.metadata) == ("ctx", {"team": "shop"})
    assert ScriptedModel([say("Hello.")]).turns == [say("Hello.")]


def test_a_tool_without_a_description_warns_once_at_its_function() -> None:
    with pytest.warns(UserWarning, match="tool 'undocumented' has no description for the model to read") as warned:
        Agent(id="clerk", tools=[tool(undocumented)])
    assert [(each.filename, each.lineno) for each in warned] == [(__file__, undocumented.__code__.co_firstlineno)]


@pytest.mark.parametrize("description", ["Count the letters.", ""])
def test_a_tool_whose_description_is_given_does_not_warn(description: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tool(description=description)(undocumented).descriptor.description == description
        tool(count)
