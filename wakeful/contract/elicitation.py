"""Questions that an MCP server asks in the middle of a tool call, which is suspended meanwhile.

History records them with the suspension (`SuspensionTicket.state`), so that any worker can continue the call.
"""

from typing import Literal

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire

AnswerAction = Literal["accept", "decline", "cancel"]


class ElicitedQuestion(Wire):
    """One question: a form, by its JSON schema, or a page that the person has to visit."""

    message: str
    json_schema: Maybe[dict[str, JsonValue]] = None
    url: Maybe[str] = None

    @property
    def defaults(self) -> dict[str, JsonValue]:
        """Those of the form's fields, which an accepted answer has where it leaves a field out."""
        fields = (self.json_schema or {}).get("properties")
        each = fields.items() if isinstance(fields, dict) else ()
        return {name: field["default"] for name, field in each if isinstance(field, dict) and "default" in field}


class ElicitedAnswer(Wire):
    """What the server gets as the answer."""

    action: AnswerAction
    content: Maybe[dict[str, JsonValue]] = None


class AnsweredQuestion(Wire):
    question: ElicitedQuestion
    answer: ElicitedAnswer


class Elicitation(Wire):
    """A call that waits for the answer to a question."""

    question: ElicitedQuestion
    key: Maybe[str] = None
    """The server's name of the question; absent if the server asked in the middle of a call that was then cancelled."""
    open: Few[dict[str, ElicitedQuestion]] = {}
    """More questions of the server, by its names, which are asked after this one."""
    answers: Few[dict[str, ElicitedAnswer]] = {}
    """The answers to those that were asked before, which the server gets together."""
    request_state: Maybe[str] = None
    """What the server needs to continue the call. Only the server can read it."""
    answered: Few[tuple[AnsweredQuestion, ...]] = ()
    """All questions of the call that were answered before: if the server asks one again, it gets the same answer."""

    def answered_with(self, answer: ElicitedAnswer) -> "Elicitation":
        """The same after this answer to the question."""
        if answer.action == "accept" and answer.content is not None:
            answer = answer.model_copy(update={"content": {**self.question.defaults, **answer.content}})
        answers = self.answers if self.key is None else {**self.answers, self.key: answer}
        answered = (*self.answered, AnsweredQuestion(question=self.question, answer=answer))
        return self.model_copy(update={"answers": answers, "answered": answered})

    def asking_next(self) -> "Elicitation | None":
        """The next open question; None if all are answered."""
        if not self.open:
            return None
        key, *later = self.open
        rest = {name: self.open[name] for name in later}
        return self.model_copy(update={"question": self.open[key], "key": key, "open": rest})
