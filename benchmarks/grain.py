"""How fine the grain of the code is: `python -m benchmarks.grain [PATH OF ANOTHER CLONE]`.

Counts modules, small ones and those with a single importer; and, for three typical facts, how many modules, functions
and cross-module calls of `wakeful.loop` a reader passes who follows them.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.loop.children import PARENT, child_settled, spawn_call
from tests.loop.driving import Driver, asks, awaiting_decisions, call, ok, resume, says

ROOT = Path(__file__).parents[1]
SOURCES = {
    "wakeful": "wakeful",
    "wakeful_workflows": "workflows/wakeful_workflows",
    "wakeful_activities": "activities/wakeful_activities",
}
LOOP = "wakeful/loop/"
SMALL = 50
"""Lines under which a module is small."""


@dataclass(frozen=True)
class Grain:
    modules: int
    small: int
    single_importer: int


@dataclass(frozen=True)
class Walk:
    modules: int
    functions: int
    crossings: int
    """Calls from one module of the loop into another."""


def grain(root: Path = ROOT) -> Grain:
    """The modules of the three packages; `__init__.py` files are not counted."""
    paths = {name: path for name, path in _modules(root) if path.name != "__init__.py"}
    importers = defaultdict[str, set[str]](set)
    for name, path in _modules(root):
        for imported in _imports(path):
            if imported in paths:
                importers[imported].add(name)
    small = [path for path in paths.values() if len(path.read_text().splitlines()) < SMALL]
    return Grain(len(paths), len(small), sum(len(importers[name]) == 1 for name in paths))


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    for package, folder in SOURCES.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = (package, *path.relative_to(root / folder).with_suffix("").parts)
            yield ".".join(parts).removesuffix(".__init__"), path


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def walk(story: Callable[[], object]) -> Walk:
    """What `story` passes in `wakeful.loop`."""
    modules, functions, crossings = set[str](), set[tuple[str, str]](), 0

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal crossings
        path = frame.f_code.co_filename
        if event != "call" or LOOP not in path or frame.f_code.co_name.startswith("<"):
            return
        modules.add(path)
        functions.add((path, frame.f_code.co_qualname))
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        crossings += LOOP in caller and caller != path

    sys.setprofile(profile)
    try:
        story()
    finally:
        sys.setprofile(None)
    return Walk(len(modules), len(functions), crossings)


def one_tool_run() -> Walk:
    """A run with one tool call, from its request to its result."""

    def story() -> None:
        driver = Driver()
        driver.model(asks(call("c1")))
        driver.tool("c1", ok("sunny"))
        driver.model(says("It is sunny."))

    return walk(story)


def childs_end() -> Walk:
    """A background task ends while its owner only waits for it: the owner's next step starts."""
    driver = Driver(PARENT)
    driver.model(asks(spawn_call("c1")))
    driver.model(says("Let us wait."))
    return walk(lambda: driver.feed(child_settled("bg_0")))


def decision() -> Walk:
    """A decision resumes a suspended call."""
    driver = awaiting_decisions()
    return walk(lambda: driver.decide(resume("c1")))


STORIES: dict[str, Callable[[], Walk]] = {
    "a run with one tool call": one_tool_run,
    "a background task's end": childs_end,
    "a decision": decision,
}


def main() -> None:
    for root in (ROOT, *map(Path, sys.argv[1:])):
        counted = grain(root)
        print(f"{root}: {counted.modules} modules, {counted.small} under {SMALL} lines, ", end="")
        print(f"{counted.single_importer} with a single importer")
    for name, story in STORIES.items():
        passed = story()
        print(f"{name}: {passed.modules} modules of the loop, {passed.functions} functions, ", end="")
        print(f"{passed.crossings} calls between modules")


if __name__ == "__main__":
    main()
