"""The page about models is true: its code with pydantic-ai runs, and prints what the page says."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[4] / "docs" / "models.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGE, re.DOTALL)
SHOWN = [(code, printed) for code, printed in BLOCKS if "pydantic_ai" in code]


@pytest.mark.server
@pytest.mark.parametrize(("code", "printed"), SHOWN)
def test_the_code_prints_what_is_shown(code: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "docs/models.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed


def test_the_page_has_code_with_pydantic_ai() -> None:
    assert len(SHOWN) == 2
