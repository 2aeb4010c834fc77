"""The baseline for streams: a workflow whose activity streams an answer and heartbeats.

`BareStream` heartbeats without details: when its worker is lost, Temporal retries the activity from the first token.
`BareHeartbeatStream` heartbeats the text so far, which is the minimum that a client can watch. Timeouts, retries and
heartbeat throttling are Wakeful's.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    import httpx

    from benchmarks.workload import BARE, HEARTBEAT_TIMEOUT

TIMEOUT = timedelta(minutes=10)
_RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=500))


async def stream_deltas(url: str, model: str, question: str) -> AsyncIterator[str]:
    """The delta in each line of a Chat Completions API's event stream; empty for lines without text."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
    async with (
        httpx.AsyncClient(timeout=60) as http,
        http.stream("POST", f"{url}/chat/completions", json=body) as response,
    ):
        async for line in response.aiter_lines():
            yield _delta(line)


@dataclass(frozen=True)
class BareModel:
    """The streaming activities, over a Chat Completions API."""

    url: str

    @activity.defn
    async def stream_answer(self, question: str) -> str:
        text = ""
        async for delta in stream_deltas(self.url, BARE, question):
            text += delta
            activity.heartbeat()
        return text

    @activity.defn
    async def heartbeat_answer(self, question: str) -> str:
        text = ""
        async for delta in stream_deltas(self.url, BARE, question):
            text += delta
            activity.heartbeat(text)
        return text


@workflow.defn
class BareStream:
    @workflow.run
    async def run(self, question: str) -> str:
        return await workflow.execute_activity_method(
            BareModel.stream_answer,
            question,
            start_to_close_timeout=TIMEOUT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_RETRIES,
        )


@workflow.defn
class BareHeartbeatStream:
    @workflow.run
    async def run(self, question: str) -> str:
        return await workflow.execute_activity_method(
            BareModel.heartbeat_answer,
            question,
            start_to_close_timeout=TIMEOUT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_RETRIES,
        )


def _delta(line: str) -> str:
    _, is_data, data = line.partition("data: ")
    if not is_data or data == "[DONE]":
        return ""
    return "".join(choice["delta"].get("content") or "" for choice in json.loads(data)["choices"])
