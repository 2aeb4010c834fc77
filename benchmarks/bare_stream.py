"""The yardstick for streams: a workflow whose activity streams an answer, gives signs of life, and keeps nothing.

When its worker is lost, Temporal tries it again from the first token. The settings that decide how soon are Wakeful's.
`BareTelling` says in its signs of life what it has so far, for whoever watches; it is the least that can be watched.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    import httpx

    from benchmarks.sides import BARE, HEARTBEAT_TIMEOUT

TIMEOUT = timedelta(minutes=10)
_RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=500))


async def answer(url: str, model: str, question: str) -> AsyncIterator[str]:
    """What each line of a Chat Completions API's event stream adds to its answer, also if that is nothing."""
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": question}]}
    async with (
        httpx.AsyncClient(timeout=60) as http,
        http.stream("POST", f"{url}/chat/completions", json=body) as response,
    ):
        async for line in response.aiter_lines():
            yield _delta(line)


@dataclass(frozen=True)
class BareModel:
    """A Chat Completions API."""

    url: str

    @activity.defn
    async def stream_answer(self, question: str) -> str:
        text = ""
        async for words in answer(self.url, BARE, question):
            text += words
            activity.heartbeat()
        return text

    @activity.defn
    async def tell_answer(self, question: str) -> str:
        text = ""
        async for words in answer(self.url, BARE, question):
            text += words
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
class BareTelling:
    @workflow.run
    async def run(self, question: str) -> str:
        return await workflow.execute_activity_method(
            BareModel.tell_answer,
            question,
            start_to_close_timeout=TIMEOUT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_RETRIES,
        )


def _delta(line: str) -> str:
    """What a line of the event stream adds to the answer."""
    _, is_data, data = line.partition("data: ")
    if not is_data or data == "[DONE]":
        return ""
    return "".join(choice["delta"].get("content") or "" for choice in json.loads(data)["choices"])
