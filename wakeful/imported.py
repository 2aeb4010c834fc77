"""Import what a setting names as `module:name` or `path/to/file.py:name`: a registry, or a client factory.

A file is loaded as exactly that file, whatever other modules are called. It has its stem as its module name, as if its
folder had been on the path, unless that name belongs to another module.
"""

import hashlib
import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType

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
    module_name, name = split_named(written)
    if not (module_name and name):
        forms = f"module:{example} or path/to/file.py:{example}"
        corrected = f"{written.rstrip(':')}:{example}" if module_name else f"myapp:{example}"
        raise ConfigurationError([f"{what} must be written as {forms}, for example {corrected}"])
    is_file = module_name.endswith(".py")
    if is_file and not Path(module_name).is_file():  # its import would miss a module instead
        raise ConfigurationError([f"{what}: the file {module_name!r} does not exist"])
    try:
        module = _load_file(Path(module_name).resolve()) if is_file else _import_module(module_name)
    except ModuleNotFoundError as error:
        if is_file or error.name not in (module_name.partition(".")[0], module_name):
            raise ConfigurationError([f"{what}: {module_name} needs {error.name!r}, which is missing"]) from error
        raise ConfigurationError([f"{what}: there is no module {module_name!r} here or on the path"]) from error
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise ConfigurationError([f"{what}: syntax error in {where}: {error.msg}"]) from error
    except ImportError as error:
        if not (is_file and "relative import" in str(error)):
            raise
        remedy = f"import its neighbours by their names, or name it as a module, such as package.module:{name}"
        raise ConfigurationError([f"{what}: a file has no package for a relative import: {remedy}"]) from error
    found: object = getattr(module, name, None)
    return found


def split_named(written: str) -> tuple[str, str]:
    """The module or the file, and the name in it; a path may contain colons."""
    module_name, _, name = written.rpartition(":") if ":" in written else (written, "", "")
    return module_name, name


def _import_module(name: str) -> ModuleType:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _load_file(file: Path) -> ModuleType:
    """The module of a file. One that was loaded before, by whatever name, is not executed again."""
    if (loaded := _loaded_from(file)) is not None:
        return loaded
    folder = str(file.parent)
    if not _is_taken(file.stem, file):
        # As Python does for a script: its neighbours are found before any other modules.
        if sys.path[:1] != [folder]:
            sys.path.insert(0, folder)
        importlib.invalidate_caches()
        spec = importlib.util.find_spec(file.stem)
        if spec is not None and _is_same(spec.origin, file):  # a package of this name may be beside it
            return importlib.import_module(file.stem)
    elif folder not in sys.path:
        sys.path.append(folder)  # last: the module whose name it shares keeps that name, for every other import
    return _execute(file)


def _loaded_from(file: Path) -> ModuleType | None:
    modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return next((module for module in modules if _is_same(getattr(module, "__file__", None), file)), None)


def _is_same(origin: object, file: Path) -> bool:
    # The real path of each module would be slow; a link to the file may have another name, but none is imported.
    return isinstance(origin, str) and os.path.basename(origin) == file.name and os.path.realpath(origin) == str(file)


def _is_taken(name: str, file: Path) -> bool:
    """Whether the name cannot be a module's, or is that of another one, imported or not."""
    if name in sys.modules or "." in name:
        return True
    spec = importlib.util.find_spec(name)
    return spec is not None and not _is_same(spec.origin, file)


def _execute(file: Path) -> ModuleType:
    """The file as a module with a name of its own, which is the same each time and in each process."""
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    name = re.sub(r"\W", "_", file.stem) + f"_{digest}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"the file {str(file)!r} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickle, dataclasses and type hints look it up by its name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # as an import does: the next attempt executes it again
        raise
    return module
