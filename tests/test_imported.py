"""`--app FILE.py:name` loads exactly that file, and once, whatever other modules are called."""

import importlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wakeful import ConfigurationError
from wakeful.imported import import_named


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Modules and the path of the test are its own."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = path


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def load(file: Path, name: str = "value") -> object:
    return import_named("--app", f"{file}:{name}", example="registry")


def test_files_with_the_same_name_in_two_folders_are_two_modules(tmp_path: Path) -> None:
    first, second = (write(tmp_path / folder / "shop_app.py", f"value = {folder!r}") for folder in ("a", "b"))
    assert [load(first), load(second), load(first), load(second)] == ["a", "b", "a", "b"]


@pytest.mark.parametrize("name", ["email", "types", "json", "wakeful", "httpx", "antigravity"])
def test_a_file_may_be_named_like_another_module_which_keeps_its_name(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / f"{name}.py", "value = 'the file'")
    assert load(file) == "the file"
    assert Path(str(importlib.util.find_spec(name).origin)) != file  # type: ignore[union-attr]  # it exists
    assert getattr(sys.modules.get(name), "value", None) is None


@pytest.mark.parametrize("name", ["my-agents", "v1.2", "1st", "class", "a b", "a:b"])
def test_a_file_may_have_a_name_that_no_module_can_have(tmp_path: Path, name: str) -> None:
    assert load(write(tmp_path / f"{name}.py", "value = 'the file'")) == "the file"


@pytest.mark.parametrize("name", ["counted_app", "email"])
def test_the_same_file_is_the_same_module_by_every_path_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = write(tmp_path / "a" / f"{name}.py", "value = object()")
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    link = tmp_path / "other_name.py"
    link.symlink_to(file)
    monkeypatch.chdir(tmp_path)
    paths = (file, Path("a", file.name), Path("a", "..", "a", file.name), tmp_path / "linked" / file.name, link)
    assert len({id(load(path)) for path in paths}) == 1


def test_a_module_that_was_imported_by_its_name_is_not_loaded_again_from_its_file(tmp_path: Path) -> None:
    file = write(tmp_path / "packaged_app" / "agents.py", "value = object()")
    sys.path.insert(0, str(tmp_path))
    imported = import_named("--app", "packaged_app.agents:value", example="registry")
    assert load(file) is imported


def test_a_file_and_its_neighbours_import_one_another(tmp_path: Path) -> None:
    write(tmp_path / "neighbour_tools.py", "def value():\n    import neighbour_app\n    return neighbour_app.token")
    file = write(tmp_path / "neighbour_app.py", "from neighbour_tools import value\ntoken = object()")
    value = load(file)
    assert callable(value)
    assert value() is load(file, "token")


def test_a_package_beside_a_file_of_its_name_is_not_taken_for_it(tmp_path: Path) -> None:
    write(tmp_path / "twin_app" / "__init__.py", "value = 'the package'")
    assert load(write(tmp_path / "twin_app.py", "value = 'the file'")) == "the file"


@pytest.mark.parametrize("name", ["pickled_app", "email"])
def test_values_of_its_classes_can_be_pickled(tmp_path: Path, name: str) -> None:
    text = "from dataclasses import dataclass\n@dataclass\nclass Order:\n    id: 'int'\nvalue = Order(1)"
    value = load(write(tmp_path / f"{name}.py", text))
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("name", ["retried_app", "email"])
def test_a_file_that_failed_is_executed_again(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / f"{name}.py", "raise KeyError('no key')")
    with pytest.raises(KeyError):
        load(file)
    write(file, "value = 'corrected'")
    assert load(file) == "corrected"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_module_x", r"\.py needs 'no_such_module_x', which is missing$"),
        ("value = (", r"': syntax error in .*broken_app\.py, line 1: "),
        (
            "from . import tools",
            r"': a file has no package for a relative import: import its neighbours by their names",
        ),
    ],
)
def test_a_file_that_cannot_be_imported_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        load(write(tmp_path / "broken_app.py", text))


def test_the_command_loads_a_file_that_is_named_like_a_module_of_the_standard_library(tmp_path: Path) -> None:
    file = write(
        tmp_path / "email.py", "from wakeful import Agent, Registry\nregistry = Registry(agents=[Agent(id='a')])"
    )
    program = f"from wakeful.worker import load_registry; print(list(load_registry({f'{file}:registry'!r}).agents))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout
    assert out.strip() == "['a']"
