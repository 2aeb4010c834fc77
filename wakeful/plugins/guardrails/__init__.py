"""Guardrails: checks of what users say to a model, and of what it answers."""

from wakeful.plugins.guardrails.checks import Allow, Block, Check, GuardRule, Rewrite, Ruling
from wakeful.plugins.guardrails.plugin import Guardrails, GuardrailsSettings

__all__ = ["Allow", "Block", "Check", "GuardRule", "Guardrails", "GuardrailsSettings", "Rewrite", "Ruling"]
