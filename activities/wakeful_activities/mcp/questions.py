"""Questions that a server asks in the middle of a call: to which call each belongs, and what it gets as an answer.

Servers of the newer protocol end a call with their questions. Older ones send a request of their own and wait. Over
stdio, nothing says which call such a request belongs to: it is given to a call once no call is left that could be doing
anything else than waiting for an answer. A wrong guess among these does no harm, because a decision answers only the
question that it was made about.
"""

import asyncio
from collections.abc import Sequence

from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from wakeful.contract.elicitation import AnsweredQuestion, ElicitedAnswer, ElicitedQuestion
from wakeful_activities.mcp.streams import SENDING, Sent


class CallInFlight(Sent):
    """A call that the server works on."""

    def __init__(self, answered: Sequence[AnsweredQuestion]) -> None:
        super().__init__()
        self.answered = tuple(answered)
        self.question: asyncio.Future[ElicitedQuestion] = asyncio.get_running_loop().create_future()
        """What the server asked, if no earlier decision answers it."""
        self.is_over = asyncio.Event()
        """The server has received the reply that no answer will come."""


class Questions:
    """The calls of a connection, and the questions that arrive on it."""

    def __init__(self) -> None:
        self._calls: list[CallInFlight] = []
        self._unassigned = 0
        self._changed = asyncio.Condition()

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    async def begin(self, answered: Sequence[AnsweredQuestion]) -> CallInFlight:
        call = CallInFlight(answered)
        self._calls.append(call)
        return call

    async def end(self, call: CallInFlight) -> None:
        call.is_over.set()
        self._calls.remove(call)
        async with self._changed:
            self._changed.notify_all()

    async def answer(self, params: ElicitRequestParams) -> ElicitResult:
        """The recorded answer; without one, the call is suspended, and this one is cancelled at the server."""
        question = question_of(params)
        for call in self._calls:
            if (known := known_answer(question, call.answered)) is not None:
                return result_of(known)
        asker = await self._asker()
        if asker is not None:
            asker.question.set_result(question)
            await asker.is_over.wait()
        return ElicitResult(action="cancel")

    async def _asker(self) -> CallInFlight | None:
        """The call that asks; None if there is none."""
        sending = SENDING.get()
        if isinstance(sending, CallInFlight) and sending in self._calls and not sending.question.done():
            return sending
        self._unassigned += 1
        try:
            async with self._changed:
                self._changed.notify_all()
                await self._changed.wait_for(lambda: self._unassigned >= len(self._undecided))
                return next(iter(self._undecided), None)
        finally:
            self._unassigned -= 1

    @property
    def _undecided(self) -> list[CallInFlight]:
        return [call for call in self._calls if not call.question.done()]


def question_of(params: ElicitRequestParams) -> ElicitedQuestion:
    if isinstance(params, ElicitRequestFormParams):
        return ElicitedQuestion(message=params.message, json_schema=dict(params.requested_schema))
    return ElicitedQuestion(message=params.message, url=params.url)


def known_answer(question: ElicitedQuestion, answered: Sequence[AnsweredQuestion]) -> ElicitedAnswer | None:
    """The newest answer to the same question, if it was answered before."""
    return next((each.answer for each in reversed(answered) if each.question == question), None)


def result_of(answer: ElicitedAnswer) -> ElicitResult:
    return ElicitResult.model_validate(answer.model_dump(mode="json"))
