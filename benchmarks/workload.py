"""The workload: a model that asks for a tool so many times and then answers; each result has so many bytes.

Both sides play this one script. It holds no state and reads nothing but the step's number, so that the model's own cost
is the same small constant on both sides and in every step.
"""

import time
from dataclasses import dataclass

PAD = "pad"
"""Returns so many bytes."""
PAD_LOCAL = "pad_local"
"""The same as a local tool, where Wakeful has those."""
ASK = "ask"
"""Waits for a person's decision first."""

TOKEN = 5
"""Characters. Tokens are of one length, so that each goes out as one delta, also where an answer is gone on with."""


@dataclass(frozen=True)
class Work:
    """One run's workload. Its text form is the question to the agent, and stands in the run's id."""

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
class Turn:
    """What the model says at one step: a tool to call, or a last word."""

    tool: str | None
    arguments: dict[str, int]
    text: str


def turn(work: Work, done: int) -> Turn:
    """The model's answer once `done` steps are done. Its last word is the time, for callers to see."""
    if done < work.steps:
        return Turn(work.tool, {"step": done + 1, "size": work.size}, "")
    return Turn(None, {}, f"{time.time():.6f}")


def padding(size: int) -> str:
    return "x" * size


def words(tokens: int) -> str:
    """An answer of so many tokens, numbered, so that one that is lost or doubled shows."""
    return "".join(f"{number:0{TOKEN - 1}} " for number in range(tokens))
