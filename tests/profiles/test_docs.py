"""The code in docs/profiles.md runs."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ROOT

CODE = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs/profiles.md").read_text(), re.DOTALL))


async def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page: dict[str, Any] = {"__name__": "page"}
    exec(CODE, page)
    assert [await page["greet"](), await page["greet"]()] == ["visit 1, dry", "visit 2, dry"]
    assert [key.key for key in page["registry"].profile_keys] == ["taste", "visits"]
