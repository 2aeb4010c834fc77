"""Take the picture of a trace: the tour of the tests, in Arize Phoenix.

`WAKEFUL_PHOENIX` names the command of PyPI's `arize-phoenix`, in an environment of its own.
"""

import asyncio
import base64
import json
import tempfile
import urllib.request
from pathlib import Path

from docs.pictures.take import FOLDER, TIMEOUT_SECONDS, Params, chromium, chromium_command, drawn
from tests.telemetry.test_tour import PHOENIX, in_phoenix, phoenix, tour
from wakeful.cli.process import run_and_leave
from wakeful.contract.errors import ConfigurationError

WIDTH, HEIGHT = 1360, 2330
SHARPNESS = 1.0
TREE = ("POST /complaints", "await_decision", "execute_tool")
DECISION = "await_decision ask"
SELECTED = ("Tool: ask_customer",)
"""Words that are there once the trace has been drawn, and once its decision has been selected."""


async def take() -> None:
    """Run the tour, and photograph its trace."""
    command = chromium_command()
    if PHOENIX is None:
        raise ConfigurationError(["Phoenix is missing: pip install arize-phoenix, and set WAKEFUL_PHOENIX"])
    with tempfile.TemporaryDirectory() as folder:
        async with phoenix(Path(folder)) as url:
            found = await tour(url, Path(folder, "journal"), in_phoenix(url))
            await photograph(command, f"{url}/projects/{project(url)}/traces/{found[0].trace_id}")


def project(url: str) -> str:
    with urllib.request.urlopen(f"{url}/v1/projects/default") as answer:
        return str(json.load(answer)["data"]["id"])


async def photograph(command: str, url: str) -> None:
    view: Params = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SHARPNESS, "mobile": False}
    async with chromium(command) as browser, asyncio.timeout(TIMEOUT_SECONDS):
        await browser.call("Emulation.setDeviceMetricsOverride", view)
        await browser.call("Page.navigate", {"url": url})
        await browser.evaluate(drawn(TREE))
        await browser.evaluate(selected(DECISION))
        await browser.evaluate(drawn(SELECTED))
        screenshot = await browser.call("Page.captureScreenshot", {"format": "png"})
    path = FOLDER / "trace.png"
    path.write_bytes(base64.b64decode(str(screenshot["data"])))
    print(path)


def selected(text: str) -> str:
    """A promise that the row that begins with this text has been clicked."""
    return f"""
        new Promise((done) => {{
            const look = () => {{
                const rows = [...document.querySelectorAll("button, [role=button], [role=treeitem], li")];
                const row = rows.filter((each) => each.innerText.trim().startsWith({json.dumps(text)})).at(-1);
                row ? done(row.click()) : requestAnimationFrame(look);
            }};
            look();
        }})
    """


if __name__ == "__main__":
    run_and_leave(lambda: asyncio.run(take()), name="trace")
