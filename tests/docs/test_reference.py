"""The reference in docs/reference has every public name, and no other; each says what it is."""

import inspect
import re
from types import ModuleType

import pytest

import wakeful
import wakeful.a2a
import wakeful.mcp
import wakeful.testing
import wakeful.workflow
from tests.support.processes import ROOT

MODULES = (wakeful, wakeful.testing, wakeful.workflow, wakeful.a2a, wakeful.mcp)
PUBLIC = [(module, name) for module in MODULES for name in module.__all__]


def referenced() -> list[str]:
    pages = sorted((ROOT / "docs/reference").glob("*.md"))
    return [name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)]


def test_the_reference_has_every_public_name_once_and_no_other() -> None:
    assert sorted(referenced()) == sorted(f"{module.__name__}.{name}" for module, name in PUBLIC)


@pytest.mark.parametrize(("module", "name"), PUBLIC, ids=lambda value: getattr(value, "__name__", value))
def test_a_public_class_or_function_says_what_it_is(module: ModuleType, name: str) -> None:
    value = getattr(module, name)
    if inspect.isclass(value):
        text = vars(value).get("__doc__") or ""
        assert text.strip(), f"{name} has no docstring"
        assert not text.startswith(f"{name}("), f"{name} has only the docstring that @dataclass writes"
    elif inspect.isroutine(value):
        assert inspect.getdoc(value), f"{name} has no docstring"
