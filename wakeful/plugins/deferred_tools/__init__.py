"""Show the model a few tools, and let it find the others when it needs them."""

from wakeful.plugins.deferred_tools.plugin import PROMOTED, DeferredTools, DeferredToolsSettings, DeferRule, Promotion

__all__ = ["PROMOTED", "DeferRule", "DeferredTools", "DeferredToolsSettings", "Promotion"]
