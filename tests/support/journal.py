"""Read what tools wrote down, from this process or from a worker that is gone."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.waiting import BOUND_SECONDS


@dataclass(frozen=True)
class Journal:
    path: Path

    def lines(self, tool: str | None = None) -> list[dict[str, Any]]:
        text = self.path.read_text() if self.path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        return [line for line in lines if tool in (None, line["tool"])]

    def said(self, tool: str) -> list[str]:
        return [line["what"] for line in self.lines(tool)]

    async def until(self, tool: str, what: str, *, count: int = 1) -> None:
        """Wait until a tool has written `what` that many times."""
        async with asyncio.timeout(BOUND_SECONDS):
            while self.said(tool).count(what) < count:
                await asyncio.sleep(0.02)
