"""The workload: which sides are compared, and the script that each of them runs.

A side is one implementation under comparison. The script asks for a tool a given number of times and then answers; each
tool result has a given number of bytes. The script holds no state and reads only the number of the step, so that the
model costs the same small constant on every side and in every step.
"""

import time
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from random import Random
from string import ascii_lowercase

BARE = "bare"
"""The baseline: a hand-written workflow."""
WAKEFUL = "wakeful"
LOCAL = "wakeful, local tools"
WHOLE = "whole conversation"
"""The baseline with the whole conversation as the input of every model call; only its history size is measured."""
WORKFLOW_STREAMS = "workflow_streams"
"""Temporal's own streams, `temporalio.contrib.workflow_streams`; only the size of their history is measured."""
DIRECT = "direct"
"""A client that reads the model's answer from the provider, without Temporal."""

BARE_SANDBOXED = "bare-sandboxed"
"""The baseline's worker in the SDK's default sandbox; the results call it `bare`, too."""

STREAMED = "streamed"
"""Wakeful's agent that receives its answers token by token."""
COMPLETE = "complete"
"""Wakeful's agent that receives the same answers whole. The two ids have one length, because history contains them."""
WATCHED = "watched"
"""Wakeful's agent that calls tools, suspends for a decision, and then streams a long answer to its watchers."""

HEARTBEAT_TIMEOUT = timedelta(seconds=3)
"""Of activities that stream, on both sides."""

PAD = "pad"
"""The tool that returns a given number of bytes."""
PAD_LOCAL = "pad_local"
"""The same as a local tool, if this version of Wakeful has local tools."""
ASK = "ask"
"""The same, after a person has decided."""

TOKEN = 5
"""Characters per token. All tokens have one length, so that each is one delta, also in a continued answer."""


def streaming_queue(side: str) -> str:
    """The task queue of a side's streaming worker, which a benchmark can kill while the other workers run on."""
    return f"{side}-streaming"


@dataclass(frozen=True)
class Work:
    """One run's workload. Its text form is the question to the agent, and part of the run's id."""

    steps: int
    size: int
    tool: str = PAD

    def __str__(self) -> str:
        return f"{self.steps}.{self.size}.{self.tool}"

    @classmethod
    def parse(cls, text: str) -> "Work":
        steps, size, tool = text.split(".")[:3]
        return cls(int(steps), int(size), tool)


@dataclass(frozen=True)
class ModelAnswer:
    """The scripted model's answer in one step: a tool call, or a final text."""

    tool: str | None
    arguments: dict[str, int]
    text: str


def scripted_answer(work: Work, done: int) -> ModelAnswer:
    """The answer after `done` steps. The final text is the time of the call, which callers use as a timestamp."""
    if done < work.steps:
        return ModelAnswer(work.tool, {"step": done + 1, "size": work.size}, "")
    return ModelAnswer(None, {}, f"{time.time():.6f}")


def padding(step: int, size: int) -> str:
    """A text of so many bytes, different in each step, which compresses about as well as prose does."""
    text = _text()
    start = step * size % (len(text) - size)
    return text[start : start + size]


@cache
def _text() -> str:
    random = Random("padding")
    words = ["".join(random.choices(ascii_lowercase, k=random.randint(2, 9))) for _ in range(4_000)]
    return " ".join(random.choices(words, k=250_000))


def answer_text(tokens: int) -> str:
    """A text of this many numbered tokens, so that a lost or duplicated token is detectable."""
    return "".join(f"{number:0{TOKEN - 1}} " for number in range(tokens))
