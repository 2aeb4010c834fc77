"""The JavaScript SDK of A2A against our server. It needs Node.js with npm, and installs the SDK."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not (shutil.which("node") and shutil.which("npm")), reason="needs Node.js 20 or newer, with npm"
    ),
]

INSTALL_SECONDS = 300
RUN_SECONDS = 180


@pytest.fixture(scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, with what `npm install` brings."""
    folder = tmp_path_factory.mktemp("js")
    shutil.copy(Path(__file__).with_name("client.mjs"), folder)
    await ran(folder, "npm", "install", "--no-audit", "--no-fund", "@a2a-js/sdk@1.3", within=INSTALL_SECONDS)
    return folder


async def ran(folder: Path, *command: str, within: float) -> str:
    """What a program prints."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(within):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.parametrize("transport", ["JSONRPC", "HTTP+JSON"])
async def test_the_javascript_sdk_blocks_streams_answers_cancels_and_subscribes(
    url: str, folder: Path, transport: str
) -> None:
    shown = json.loads(
        await ran(folder, "node", "client.mjs", url, transport, f"js-{transport[:4]}", within=RUN_SECONDS)
    )
    assert shown == {
        "blocking": ["TASK_STATE_COMPLETED", "the sum is 5"],
        "streaming": ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "the sum is 5", "TASK_STATE_COMPLETED"],
        "input": [
            "TASK_STATE_INPUT_REQUIRED",
            "May I launch?",
            "TASK_STATE_COMPLETED",
            'approval gave {"did":"launch","said":"by all means","reason":null}',
        ],
        "resubscribed": ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"],
        "cancel": ["TASK_STATE_WORKING", "TASK_STATE_CANCELED"],
    }
