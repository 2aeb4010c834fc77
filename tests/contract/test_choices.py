"""Enums by name: what type checkers accept is what pydantic accepts, and a name that does not exist is refused."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

import wakeful
import wakeful.contract
from wakeful import (
    Agent,
    ConfigurationError,
    ContextMessage,
    Decision,
    InputMessage,
    McpServer,
    Message,
    ModelResponse,
    PermissionPolicy,
    ProviderError,
    ReminderMessage,
    Rule,
    RunRequest,
    StateKey,
    StopPart,
    TextBlock,
    ToolResult,
    tool,
)
from wakeful.contract.choices import member_named
from wakeful.contract.requests import Submission
from wakeful.contract.runs import OnBusy
from wakeful.contract.settings import SendOptions


def enums_with_names() -> Iterator[tuple[type[StrEnum], tuple[str, ...]]]:
    """Every enum of the contract that has a `Literal` of its names beside it."""
    for found in pkgutil.iter_modules(wakeful.contract.__path__):
        module = importlib.import_module(f"wakeful.contract.{found.name}")
        for name, value in vars(module).items():
            if inspect.isclass(value) and issubclass(value, StrEnum) and value.__module__ == module.__name__:
                names = get_args(getattr(module, f"{name}Name", None))
                if names:
                    yield value, names


@pytest.mark.parametrize(("kind", "names"), [pytest.param(*each, id=each[0].__name__) for each in enums_with_names()])
def test_the_names_beside_an_enum_are_those_of_its_members(kind: type[StrEnum], names: tuple[str, ...]) -> None:
    assert names == tuple(member.value for member in kind)


def declared_constructors() -> Iterator[tuple[type[BaseModel], ast.FunctionDef]]:
    """Every model with an `__init__` for type checkers alone."""
    for file in sorted(Path(wakeful.__file__).parent.rglob("*.py")):
        source = file.read_text()
        if "if TYPE_CHECKING:\n\n        def __init__(" not in source:
            continue
        module = importlib.import_module(
            ".".join(file.relative_to(Path(wakeful.__file__).parents[1]).with_suffix("").parts)
        )
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and issubclass(model := getattr(module, node.name), BaseModel):
                blocks = (each.body for each in node.body if isinstance(each, ast.If))
                yield from ((model, each) for body in blocks for each in body if isinstance(each, ast.FunctionDef))


@pytest.mark.parametrize(
    ("model", "constructor"), [pytest.param(*each, id=each[0].__name__) for each in declared_constructors()]
)
def test_the_constructor_that_type_checkers_see_has_the_fields_of_its_model(
    model: type[BaseModel], constructor: ast.FunctionDef
) -> None:
    arguments = constructor.args
    seen = {
        argument.arg: default is None
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    if arguments.kwarg is not None:
        assert ast.unparse(arguments.kwarg.annotation or arguments.kwarg) == "Unpack[SendOptions]"
        seen |= dict.fromkeys(SendOptions.__optional_keys__, False)
    assert seen == {name: field.is_required() for name, field in model.model_fields.items()}


def pay() -> str:
    return "paid"


def text(wording: str) -> list[TextBlock]:
    return [TextBlock(text=wording)]


BY_NAME: dict[str, tuple[Callable[[Any], object], str, str]] = {
    "Agent.tool_mode": (lambda name: Agent(id="a", tool_mode=name).tool_mode, "parallel", "'sequential' or 'parallel'"),
    "Rule.behavior": (lambda name: Rule(tool="pay", behavior=name).behavior, "ask", "'allow', 'ask' or 'deny'"),
    "PermissionPolicy.default_behavior": (
        lambda name: PermissionPolicy(default_behavior=name).default_behavior,
        "deny",
        "'allow', 'ask' or 'deny'",
    ),
    "McpServer.permissions": (
        lambda name: McpServer(name="m", url="http://m", permissions={"*": name}).permissions["*"],
        "ask",
        "'allow', 'ask' or 'deny'",
    ),
    "McpServer.effects": (
        lambda name: McpServer(name="m", url="http://m", effects={"*": name}).effects["*"],
        "read_only",
        "'once', 'idempotent' or 'read_only'",
    ),
    "Decision.action": (lambda name: Decision(target="1-1", action=name).action, "resume", "'resume' or 'cancel'"),
    "InputMessage.role": (lambda name: InputMessage(content="x", role=name).role, "system", "'user'"),
    "InputMessage.visibility": (
        lambda name: InputMessage(content="x", visibility=name).visibility,
        "internal",
        "'all' or 'internal'",
    ),
    "Message.role": (lambda name: Message(id="m", role=name).role, "assistant", "'system', 'user', 'assistant'"),
    "ContextMessage.target": (
        lambda name: ContextMessage(key="k", content=text("x"), target=name).target,
        "session",
        "'system', 'session', 'conversation' or 'suffix_system'",
    ),
    "ReminderMessage.target": (
        lambda name: ReminderMessage(content="x", target=name).target,
        "conversation",
        "'system', 'session', 'conversation' or 'suffix_system'",
    ),
    "ModelResponse.stop_reason": (
        lambda name: ModelResponse(model="m", stop_reason=name).stop_reason,
        "MaxTokens",
        "'EndTurn', 'MaxTokens', 'ToolUse' or 'StopSequence'",
    ),
    "StopPart.reason": (lambda name: StopPart(name).reason, "ToolUse", "'EndTurn', 'MaxTokens', 'ToolUse'"),
    "ToolResult.status": (
        lambda name: ToolResult(tool_name="pay", status=name).status,
        "success",
        "'success', 'pending' or 'error'",
    ),
    "RunRequest.mode": (
        lambda name: RunRequest(agent_id="a", input="x", mode=name).mode,
        "thread",
        "'run' or 'thread'",
    ),
    "RunRequest.on_error": (
        lambda name: RunRequest(agent_id="a", input="x", on_error=name).on_error,
        "complete",
        "'fail' or 'complete'",
    ),
    "Submission.on_busy": (lambda name: Submission(input="x", on_busy=name).on_busy, "steer", "'enqueue', 'reject'"),
    "StateKey.scope": (
        lambda name: StateKey("k", int, default=0, scope=name).spec.scope,
        "thread",
        "state key 'k': scope should be 'run' or 'thread', not 'no such name'",
    ),
    "StateKey.merge": (
        lambda name: StateKey("k", int, default=0, merge=name).spec.merge,
        "add",
        "merge should be 'exclusive', 'add'",
    ),
    "tool.kind": (
        lambda name: tool(kind=name)(pay).descriptor.kind,
        "search",
        "tool 'pay': kind should be 'execute', 'read', 'edit', 'search' or 'other', not 'no such name'",
    ),
    "ProviderError.kind": (
        lambda name: ProviderError(name, "down").kind,
        "overloaded",
        "kind should be 'provider', 'rate_limited'",
    ),
}


@pytest.mark.parametrize("where", BY_NAME)
def test_a_member_is_accepted_by_name_and_read_as_a_member(where: str) -> None:
    made, name, _ = BY_NAME[where]
    read = made(name)
    assert isinstance(read, StrEnum)
    assert read.value == name


@pytest.mark.parametrize("where", BY_NAME)
def test_a_name_that_no_member_has_is_refused_with_those_that_exist(where: str) -> None:
    made, _, names = BY_NAME[where]
    with pytest.raises((ValidationError, ConfigurationError, ValueError)) as refused:
        made("no such name")
    assert names in str(refused.value)


def test_lists_are_accepted_where_a_model_has_tuples() -> None:
    request = RunRequest(
        agent_id="a",
        input=[InputMessage(content=[TextBlock(text="hello")])],
        permissions=[Rule(tool="pay", behavior="ask")],
    )
    assert isinstance(request.input, tuple)
    assert isinstance(request.permissions, tuple)
    assert request.messages[0].content == (TextBlock(text="hello"),)
    assert PermissionPolicy(rules=[Rule(tool="pay", behavior="ask")]).rules == request.permissions


def test_a_member_is_its_own_name() -> None:
    assert member_named(OnBusy, OnBusy.STEER, parameter="on_busy") is member_named(OnBusy, "steer", parameter="on_busy")
