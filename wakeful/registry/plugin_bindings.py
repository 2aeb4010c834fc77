"""An agent's plugins as data that a run is bound to: settings, hooks and state keys; and the checks of plugins."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from wakeful.authoring.plugin import AnyPlugin, hook_name
from wakeful.authoring.state import RESERVED_PREFIX, StateKey
from wakeful.contract.context import LastShown
from wakeful.contract.errors import ConfigurationError, validation_problems
from wakeful.contract.hooks import LifecyclePhase, Phase, PluginBinding
from wakeful.contract.state import StateKeySpec

CONTEXT_THROTTLE: StateKey[list[LastShown]] = StateKey("__runtime.context_throttle", list[LastShown], default=[])
"""When the context messages that hooks add before an inference were last sent; their cooldown needs it."""


def bindings(plugins: Sequence[AnyPlugin], settings: Mapping[str, Any]) -> tuple[PluginBinding, ...]:
    """The plugins of an agent as a run is bound to them.

    Raises:
        ConfigurationError: settings do not match their plugin.
    """
    return tuple(
        PluginBinding(
            id=plugin.id,
            settings=_settings_json(plugin, settings.get(plugin.id)),
            phases=tuple(phase for phase in Phase if phase.value in plugin.hook_names()),
            lifecycle=tuple(phase for phase in LifecyclePhase if hook_name(phase) in plugin.hook_names()),
            on_error="fail" if plugin.on_error == "fail" else None,
        )
        for plugin in plugins
    )


def bound_settings(plugin: AnyPlugin, binding: PluginBinding) -> BaseModel:
    """The settings that a run is bound to, in the plugin's current type; fields that it no longer has are dropped.

    Raises:
        ValueError: they do not match the type any more.
    """
    return plugin.settings_type.model_validate_json(to_json(binding.settings), extra="ignore")


def state_specs(state: Sequence[StateKey[Any]], plugins: Sequence[AnyPlugin]) -> tuple[StateKeySpec, ...]:
    """The state keys of an agent, its plugins and the runtime, sorted by name."""
    specs = {key.key: key.spec for key in declared_keys(state, plugins)}
    if any(name in plugin.hook_names() for plugin in plugins for name in (Phase.STEP_START, Phase.BEFORE_INFERENCE)):
        specs[CONTEXT_THROTTLE.key] = CONTEXT_THROTTLE.spec
    return tuple(specs[key] for key in sorted(specs))


def plugin_problems(plugin: AnyPlugin) -> list[str]:
    """What is wrong with a plugin itself."""
    name = plugin.id or type(plugin).__name__
    problems = []
    if not plugin.id:
        problems.append(f"plugin {name!r} has no id: set one in the class, as in id = 'reminder'")
    if not plugin.timeout > 0:
        problems.append(f"plugin {name!r} has timeout {plugin.timeout!r}; it must be more than 0 seconds")
    if plugin.on_error not in ("skip", "fail"):
        problems.append(f"plugin {name!r} has on_error {plugin.on_error!r}; use 'skip' or 'fail'")
    for hook in plugin.hook_names():
        try:
            inspect.signature(getattr(plugin, hook)).bind(None)
        except TypeError as error:
            problems.append(f"plugin {name!r}: {hook} must take one argument, the context: {error}")
    return problems


def usage_problems(
    agent_id: str, plugins: Sequence[AnyPlugin], settings: Mapping[str, Any], state: Sequence[StateKey[Any]]
) -> list[str]:
    """What is wrong with an agent's plugin settings and state keys."""
    used = {plugin.id: plugin for plugin in plugins}
    problems = [
        f"agent {agent_id!r} has settings for plugin {id!r}, which it does not use; used: {', '.join(used) or 'none'}"
        for id in settings
        if id not in used
    ]
    for plugin in used.values():
        try:
            _settings_json(plugin, settings.get(plugin.id))
        except ConfigurationError as error:
            problems += [f"agent {agent_id!r}: {problem}" for problem in error.problems]
    known: dict[str, StateKeySpec] = {}
    for key in declared_keys(state, plugins):
        if known.setdefault(key.key, key.spec) != key.spec:
            problems.append(f"agent {agent_id!r} declares state key {key.key!r} twice, with different specifications")
        if key.key.startswith(RESERVED_PREFIX):
            reserved = f"names that start with {RESERVED_PREFIX!r} are reserved"
            problems.append(f"agent {agent_id!r} declares state key {key.key!r}: {reserved}")
    return problems


def declared_keys(state: Sequence[StateKey[Any]], plugins: Sequence[AnyPlugin]) -> list[StateKey[Any]]:
    """The state keys that an agent and its plugins declare; one that both declare comes twice."""
    return [*state, *(key for plugin in plugins for key in plugin.state)]


def _settings_json(plugin: AnyPlugin, given: Any) -> dict[str, Any]:
    """An agent's settings for a plugin as JSON, with all defaults: changing a default later does not affect a run."""
    settings_type = plugin.settings_type
    try:
        if isinstance(given, BaseModel) and not isinstance(given, settings_type):
            raise ValueError(f"they are a {type(given).__name__}, not a {settings_type.__name__}")
        is_typed = isinstance(given, settings_type)
        settings = given if is_typed else settings_type.model_validate(given or {}, extra="forbid")
        written = settings.model_dump(mode="json")
        read = settings_type.model_validate_json(to_json(written))
    except ValidationError as error:
        wrong = "; ".join(validation_problems(error))
        raise ConfigurationError([f"the settings of plugin {plugin.id!r} are invalid: {wrong}"]) from error
    except ValueError as error:
        raise ConfigurationError([f"the settings of plugin {plugin.id!r} are invalid: {error}"]) from error
    if read != settings:  # most likely a SecretStr, which serializes to asterisks
        problem = f"the settings of plugin {plugin.id!r} change when they are serialized to JSON and read back"
        raise ConfigurationError([f"{problem}: put secrets into the worker's environment"])
    return written
