"""The baseline: the minimal hand-written workflow on Temporal's own API that runs the same loop.

Each step is one `infer` activity, whose input is only the step's index, and one `pad` activity. The conversation is a
list in the workflow that no activity receives, so inputs stay small. An activity that calls a real model needs the
conversation, and would have to read it from a store beside Temporal. `BareWholeRun` passes the whole list to every
model call, as most agent workflows do.
"""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from benchmarks.workload import ASK, ModelAnswer, Work, padding, scripted_answer

_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True)
class PadInput:
    step: int
    size: int


@activity.defn
async def infer(index: int) -> ModelAnswer:
    workflow_id = activity.info().workflow_id
    assert workflow_id is not None  # only workflows schedule it
    return scripted_answer(Work.parse(workflow_id), index)


@activity.defn
async def infer_whole(messages: list[str]) -> ModelAnswer:
    return scripted_answer(Work.parse(messages[0]), (len(messages) - 1) // 2)


@activity.defn
async def pad(input: PadInput) -> str:
    return padding(input.step, input.size)


@workflow.defn
class BareRun:
    """The loop with inputs of constant size."""

    def __init__(self) -> None:
        self._messages: list[ModelAnswer | str] = []
        self._waiting = False
        self._decided = False

    @workflow.run
    async def run(self, question: str) -> str:
        self._messages.append(question)
        for index in range(1_000_000):
            answer = await workflow.execute_activity(infer, index, start_to_close_timeout=_TIMEOUT)
            self._messages.append(answer)
            if answer.tool is None:
                return answer.text
            if answer.tool == ASK:
                self._waiting = True
                await workflow.wait_condition(lambda: self._decided)
            input = PadInput(**answer.arguments)
            result = await workflow.execute_activity(pad, input, start_to_close_timeout=_TIMEOUT)
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
    """The loop with the whole conversation as the input of every model call."""

    @workflow.run
    async def run(self, question: str) -> str:
        messages = [question]
        while True:
            answer = await workflow.execute_activity(infer_whole, messages, start_to_close_timeout=_TIMEOUT)
            if answer.tool is None:
                return answer.text
            input = PadInput(**answer.arguments)
            result = await workflow.execute_activity(pad, input, start_to_close_timeout=_TIMEOUT)
            messages += [f"{answer.tool} {answer.arguments}", result]
