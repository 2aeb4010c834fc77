"""Connect to Temporal with a factory of yours, so that codec, converter, interceptors, TLS and plugins are your own.

`--client module:factory` or `WAKEFUL_CLIENT` names it, for every command and for the worker. `connection.py` calls it.
"""

import dataclasses
import inspect
import os
from collections.abc import Callable, Mapping

from temporalio.client import Client
from temporalio.converter import DataConverter

from wakeful.contract.errors import ConfigurationError, ConnectionFailed
from wakeful.imported import import_named, split_named
from wakeful.storage import converts_models, data_converter, with_pydantic
from wakeful.undecodable import with_converter

VARIABLE = "WAKEFUL_CLIENT"

SETTING = "--client"


async def call_factory(named: str, arguments: Mapping[str, object]) -> Client:
    """The client that the factory returns, with a converter that Wakeful's types pass through.

    Args:
        named: `module:factory` or `path/to/file.py:factory`; the factory may be async.
        arguments: what was set of the address, by name; the factory has to have a parameter for each.

    Raises:
        ConfigurationError: the factory cannot be imported or called so, or returns something else.
        ConnectionFailed: it raised an error.
    """
    what = f"{SETTING} {named!r}"
    factory = import_named(SETTING, named, example="connect")
    if not callable(factory):
        found = "is missing" if factory is None else f"is a {type(factory).__name__}"
        raise ConfigurationError([f"{what}: {split_named(named)[1]!r} {found}; it must be a function"])
    _check_parameters(what, factory, arguments)
    try:
        returned = factory(**arguments)
        if inspect.isawaitable(returned):
            returned = await returned
    except Exception as error:  # your code, which may raise anything
        raise ConnectionFailed(f"{what} failed: {type(error).__name__}: {error}") from error
    if not isinstance(returned, Client):
        raise ConfigurationError(
            [f"{what} returned a {type(returned).__name__}; it must be a temporalio.client.Client"]
        )
    return with_converter(returned, await _converter(what, returned.data_converter))


def _check_parameters(what: str, factory: Callable[..., object], arguments: Mapping[str, object]) -> None:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # not every callable of C code has one
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = [name for name in arguments if name not in parameters]
    if unknown:
        options = " and ".join(f"--{name}" for name in unknown)
        raise ConfigurationError(
            [f"{what} takes no {' or '.join(unknown)}: leave {options} out, or add such a parameter to the function"]
        )


async def _converter(what: str, converter: DataConverter) -> DataConverter:
    """The factory's converter, with pydantic's instead of Temporal's default, and with the payload store that is set.

    Raises:
        ConfigurationError: Wakeful's types do not pass through it.
    """
    converter = with_pydantic(converter)
    if not converts_models(converter):
        raise ConfigurationError(
            [
                f"{what}: the payload converter {converter.payload_converter_class.__name__!r} does not convert "
                "pydantic models: use or subclass temporalio.contrib.pydantic.PydanticPayloadConverter"
            ]
        )
    stored = (await data_converter(os.environ)).external_storage
    if stored is None or converter.external_storage is not None:
        return converter
    return dataclasses.replace(converter, external_storage=stored)
