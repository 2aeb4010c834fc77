"""Open a step: one question to the model, and later the calls it asks for."""

from dataclasses import replace

from wakeful.contract.events import StepStart
from wakeful.contract.runs import StopDetail, Stopped
from wakeful.loop.commands import Infer
from wakeful.loop.ending import finish
from wakeful.loop.reports import next_message_id
from wakeful.loop.state import Advance, Inferring, RunState


def next_step(state: RunState, *, now: int) -> Advance:
    """Open a step and ask the model, unless the agent has used up its rounds.

    The limit is checked before the model is asked, so that no answer is paid for only to be thrown away.
    """
    limit = state.agent.max_rounds
    if limit and state.rounds >= limit:
        detail = StopDetail(code="max_rounds", detail=f"{limit} rounds of tool calls were made")
        return finish(state, Stopped(value=detail), now=now)
    step = state.steps + 1
    inferring = Inferring(id=f"infer-{step}", message_id=next_message_id(state), since=now)
    command = Infer(
        id=inferring.id,
        agent=state.agent,
        step=step,
        transcript=state.transcript.ref,
        appended=state.transcript.unsent,
        frontend_tools=state.frontend_tools,
    )
    asked = replace(state, steps=step, step_open=True, transcript=state.transcript.sent())
    return Advance(asked.entering(inferring), (command,), (StepStart(message_id=inferring.message_id),))
