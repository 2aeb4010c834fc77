"""What options set for the run that a command begins: its budget, rules and frontend tools, and who begins it."""

from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from wakeful.cli.options import RunOptionValues, parse_metadata
from wakeful.contract.budgets import Budget
from wakeful.contract.errors import CallerError, validation_problems
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.settings import RunOptions
from wakeful.contract.tools import FrontendTool

_TOOLS = TypeAdapter(tuple[FrontendTool, ...])


def parse_run_options(given: RunOptionValues) -> RunOptions:
    """What belongs to the run that a command begins, for the verb of the client that begins it."""
    typed = vars(given)
    plain = {name: typed[name] for name in RunOptions.__optional_keys__ & typed.keys()}
    budget = parse_budget(
        tokens=given.budget_tokens,
        cost=given.budget_cost,
        turns=given.budget_turns,
        tool_calls=given.budget_tool_calls,
        agents=given.budget_agents,
        seconds=given.budget_seconds,
    )
    parsed: dict[str, Any] = plain | {
        "permissions": parse_permissions(given.permission),
        "frontend_tools": read_frontend_tools(given.frontend_tools),
        "budget": budget,
        "metadata": parse_metadata(given.metadata),
    }
    return cast(RunOptions, parsed)  # the names are checked, and the request checks the values


def parse_budget(
    *,
    tokens: int | None,
    cost: float | None,
    turns: int | None,
    tool_calls: int | None,
    agents: int | None,
    seconds: float | None,
) -> Budget | None:
    """The budget that `--budget-…` gives; None without any of them."""
    budget = Budget(tokens=tokens, cost=cost, turns=turns, tool_calls=tool_calls, agents=agents, seconds=seconds)
    return None if budget == Budget() else budget


def parse_permissions(written: list[str] | None) -> tuple[Rule, ...]:
    """The rules that `--permission` gives. A pattern may contain `=`: the last one separates the behavior."""
    rules = []
    for each in written or ():
        tool, _, behavior = each.rpartition("=")
        if not tool or behavior not in list(Behavior):
            known = ", ".join(Behavior)
            raise CallerError(f"--permission {each!r} is not TOOL=BEHAVIOR; a behavior is one of {known}")
        rules.append(Rule(tool=tool, behavior=Behavior(behavior)))
    return tuple(rules)


def read_frontend_tools(path: Path | None) -> tuple[FrontendTool, ...]:
    """The tools in the file that `--frontend-tools` names."""
    if path is None:
        return ()
    try:
        return _TOOLS.validate_json(path.read_bytes())
    except OSError as error:
        raise CallerError(f"--frontend-tools {str(path)!r} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        problems = "; ".join(validation_problems(error))
        example = '[{"id": "show_map", "description": "Show a place on the map."}]'
        raise CallerError(
            f"--frontend-tools {str(path)!r}: {problems}; write a JSON array such as {example}"
        ) from error
