"""Import what a setting names as `module:name` or `path/to/file.py:name`: a registry, or a client factory."""

import importlib
import os
import sys
from pathlib import Path

from wakeful.contract.errors import ConfigurationError


def import_named(setting: str, written: str, *, example: str) -> object:
    """The object of that name; None if the module has none.

    Args:
        setting: the option or variable that names it, for messages.
        example: a usual name of such an object.

    Raises:
        ConfigurationError: it is written in another form, or the module cannot be imported.
    """
    what = f"{setting} {written!r}"
    module_name, _, name = written.partition(":")
    if not (module_name and name):
        forms = f"module:{example} or path/to/file.py:{example}"
        corrected = f"{written.rstrip(':')}:{example}" if module_name else f"myapp:{example}"
        raise ConfigurationError([f"{what} must be written as {forms}, for example {corrected}"])
    path = Path(module_name)
    if path.suffix == ".py":
        if not path.is_file():  # its import would miss a module instead
            raise ConfigurationError([f"{what}: the file {module_name!r} does not exist"])
        sys.path.insert(0, str(path.parent.resolve()))
        module_name = path.stem
    elif "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise ConfigurationError([f"{what}: {module_name} needs {error.name!r}, which is missing"]) from error
        raise ConfigurationError([f"{what}: there is no module {module_name!r} here or on the path"]) from error
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise ConfigurationError([f"{what}: syntax error in {where}: {error.msg}"]) from error
    found: object = getattr(module, name, None)
    return found
