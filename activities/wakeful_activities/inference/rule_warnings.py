"""Warn of permission rules that match no tool of a run, or that do not fit the parameters of those that it has.

A registry refuses such rules of an agent for its own tools. The tools of MCP servers and front ends, and the rules of
requests and hooks, are known when the model is called.
"""

import logging

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.inference import InferInput
from wakeful.permissions.argument_paths import fit_problem
from wakeful.permissions.rules import idle_rules, overlaid

_logger = logging.getLogger("wakeful")

MISFIT = "a permission rule does not fit the tools of a run"
REMEMBERED = 1000
"""Sets of rules and tools that were checked: every inference of a run has the same ones."""


class RuleWarnings:
    """Logs each such rule once for each version of an agent."""

    def __init__(self) -> None:
        self._checked: set[object] = set()

    def warn(self, agent: ResolvedAgent, input: InferInput) -> None:
        rules = overlaid(agent.permissions, input.permissions).rules
        key = (input.agent, rules, tuple(tool.id for tool in input.frontend_tools))
        is_plain = not agent.idle_rules and not any("(" in rule.tool or rule.message for rule in rules)
        if is_plain or key in self._checked:
            return
        if len(self._checked) >= REMEMBERED:
            self._checked.clear()
        self._checked.add(key)
        for idle in idle_rules(agent.idle_rules, input.frontend_tools):
            problem = f"permission rule {idle!r} of agent {agent.agent_id!r} matches no tool of its runs"
            _logger.warning(MISFIT, extra={"cause": problem})
        schemas = {tool.id: tool.parameters for tool in (*agent.tools, *input.frontend_tools)}
        for rule in rules:
            if (wrong := fit_problem(rule, schemas)) is not None:
                _logger.warning(MISFIT, extra={"cause": wrong})
