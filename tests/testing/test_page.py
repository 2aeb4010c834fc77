"""The code of docs/testing-agents.md passes, in this process; `test_plugin.py` runs it as a user does."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_provider.script import Answer, Call
from tests.support.fake_provider.server import fake_provider
from tests.support.processes import ROOT
from wakeful.testing import WakefulRuntime

PAGE = (ROOT / "docs/testing-agents.md").read_text()
FILES = dict(re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
TESTS = [(file, name) for file, code in FILES.items() for name in re.findall(r"def (test_\w+)", code)]
RECORDED = "test_recorded.py"


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page imports the agents of the README from beside its tests."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


def load(file: str, name: str, folder: Path) -> Callable[..., Any]:
    """A test of the page."""
    namespace: dict[str, Any] = {"__name__": file.removesuffix(".py"), "__file__": str(folder / file)}
    exec(compile(FILES[file], file, "exec"), namespace)
    test: Callable[..., Any] = namespace[name]
    return test


async def run(test: Callable[..., Any], wakeful_runtime: WakefulRuntime) -> None:
    done = test(wakeful_runtime) if inspect.iscoroutinefunction(test) else test()
    if inspect.isawaitable(done):
        await done


@pytest.mark.parametrize(("file", "name"), [(file, name) for file, name in TESTS if file != RECORDED])
async def test_the_code_of_the_page_passes(
    file: str, name: str, tmp_path: Path, wakeful_runtime: WakefulRuntime
) -> None:
    await run(load(file, name, tmp_path), wakeful_runtime)


async def test_the_recorded_test_of_the_page_is_recorded_once(
    tmp_path: Path, wakeful_runtime: WakefulRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = [name for file, name in TESTS if file == RECORDED]
    async with fake_provider(validate=False) as fake:
        fake.will(Answer(calls=(Call("c1", "stock", '{"item": "espresso machine"}'),)), Answer(text="There are 3."))
        with monkeypatch.context() as environment:
            environment.setenv("WAKEFUL_RECORD", "1")
            environment.setenv("OPENAI_API_KEY", "sk-canary")
            environment.setenv("OPENAI_BASE_URL", fake.responses_url)
            await run(load(RECORDED, name, tmp_path), wakeful_runtime)
        await run(load(RECORDED, name, tmp_path), wakeful_runtime)
        assert len(fake.asked) == 2
    assert "sk-canary" not in (tmp_path / "stock.json").read_text()


def test_the_page_shows_the_first_test_in_ten_lines() -> None:
    assert len([line for line in FILES["test_stock.py"].splitlines() if line]) <= 10
