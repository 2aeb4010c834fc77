"""The yardstick: the least that a hand-written workflow on Temporal's own API needs for the same loop.

One `infer` activity that is given only the step's index, and one `pad` activity a step. The conversation stands in a
workflow list that is never passed on, so inputs stay small; an activity that called a real model could not be written
this way without some store beside Temporal. `BareWholeRun` passes the whole list to every call, as most do.
"""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from benchmarks.workload import ASK, Turn, Work, padding, turn

_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True)
class PadInput:
    step: int
    size: int


@activity.defn
async def infer(index: int) -> Turn:
    workflow_id = activity.info().workflow_id
    assert workflow_id is not None  # only workflows schedule it
    return turn(Work.parse(workflow_id), index)


@activity.defn
async def infer_whole(messages: list[str]) -> Turn:
    return turn(Work.parse(messages[0]), (len(messages) - 1) // 2)


@activity.defn
async def pad(input: PadInput) -> str:
    return padding(input.size)


@workflow.defn
class BareRun:
    """The loop with inputs of constant size."""

    def __init__(self) -> None:
        self._messages: list[Turn | str] = []
        self._waiting = False
        self._decided = False

    @workflow.run
    async def run(self, question: str) -> str:
        self._messages.append(question)
        for index in range(1_000_000):
            said = await workflow.execute_activity(infer, index, start_to_close_timeout=_TIMEOUT)
            self._messages.append(said)
            if said.tool is None:
                return said.text
            if said.tool == ASK:
                self._waiting = True
                await workflow.wait_condition(lambda: self._decided)
            result = await workflow.execute_activity(pad, PadInput(**said.arguments), start_to_close_timeout=_TIMEOUT)
            self._messages.append(result)
        raise AssertionError("the script always ends")

    @workflow.signal
    def decide(self) -> None:
        self._decided = True

    @workflow.query
    def waiting(self) -> bool:
        return self._waiting


@workflow.defn
class BareWholeRun:
    """The loop with the whole conversation in every call to the model."""

    @workflow.run
    async def run(self, question: str) -> str:
        messages = [question]
        while True:
            said = await workflow.execute_activity(infer_whole, messages, start_to_close_timeout=_TIMEOUT)
            if said.tool is None:
                return said.text
            result = await workflow.execute_activity(pad, PadInput(**said.arguments), start_to_close_timeout=_TIMEOUT)
            messages += [f"{said.tool} {said.arguments}", result]
