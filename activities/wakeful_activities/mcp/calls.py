"""Execute a tool call at an MCP server: as a tool that the tool activity runs like any other.

A call that was not sent waits for its server. One that was sent, and whose answer was lost, is sent again only if the
tool may be repeated. A question of the server suspends the call, and the decision continues it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wakeful.authoring.mcp_server import McpServer
from wakeful.authoring.tool import Tool
from wakeful.authoring.tool_context import SuspendCall, ToolContext
from wakeful.contract.decisions import DecisionAction, Suspension, SuspensionTicket, ToolCallResume
from wakeful.contract.elicitation import Elicitation, ElicitedAnswer, ElicitedQuestion
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.ids import suspension_id
from wakeful.contract.tools import McpToolRef, ToolCallInput, ToolDescriptor, ToolResult, outcome_unknown
from wakeful.registry.registry import Registry
from wakeful.telemetry.pattern_warning import warn_of_patterns
from wakeful_activities.mcp.connections import McpConnections
from wakeful_activities.mcp.failures import ConnectionLost, ServerAway
from wakeful_activities.other_workers import (
    AttemptFailed,
    Lacking,
    OtherWorkers,
    executed_before,
    may_repeat,
    missing_before,
    waited,
)

if TYPE_CHECKING:
    from mcp_types import InputRequiredResult, InputResponses

    from wakeful_activities.mcp.connection import Answer, McpConnection, ToolRequest

CONNECT_SECONDS = 5.0
"""How long an attempt waits for the connection; then another one follows."""

MAX_ROUNDS = 10
"""How often in a row a server may ask what was answered before, or for more time."""

STATE_ONLY_SECONDS = 0.25
"""How long to wait for a server that wants to be asked again."""

MAX_ATTEMPTS = 10
ELICITATION = "mcp:elicitation"
"""The action of a suspension by a question of a server."""

CONNECTION_LOST = "McpConnectionLost"
INVALID_PARAMS = -32_602
URL_ELICITATION_REQUIRED = -32_042


class McpCalls:
    """The tools of the registry's MCP servers, as tools of this worker."""

    def __init__(self, registry: Registry, connections: McpConnections, others: OtherWorkers) -> None:
        self._registry = registry
        self._connections = connections
        self._others = others

    def tool(self, input: ToolCallInput) -> Tool | None:
        """The tool that performs the call; None if it is of no server, or of one that this worker does not know."""
        if input.mcp is None or (server := self._registry.mcp_server(input.mcp.server)) is None:
            return None
        call = _ServerCall(server, self._connections.to(server), self._others, input, input.mcp)
        descriptor = ToolDescriptor(id=input.call.name, name=input.mcp.tool, mcp=input.mcp)
        return _McpTool(descriptor, call.perform, BaseModel, context_parameter="context")


@dataclass(frozen=True)
class _McpTool(Tool):
    """A tool whose arguments the server checks."""

    def parse(self, arguments: JsonValue) -> dict[str, Any]:
        if arguments is not None and not isinstance(arguments, dict):
            problem = f"the arguments must be an object, not a {type(arguments).__name__}"
            raise ToolError(problem, kind=ToolErrorKind.INVALID_ARGUMENTS)
        return {"arguments": arguments or {}}


@dataclass(frozen=True)
class _ServerCall:
    """One execution of a call."""

    server: McpServer
    connection: "McpConnection"
    others: OtherWorkers
    input: ToolCallInput
    ref: McpToolRef

    async def perform(self, context: ToolContext[Any], arguments: dict[str, Any]) -> ToolResult:
        """The result of the call.

        Raises:
            SuspendCall: the server asks a question.
            AttemptFailed: another attempt follows.
        """
        asked = _answered(self.input.suspension_state, self.input.resume)
        if asked is not None and (following := asked.asking_next()) is not None:
            raise self._suspending(following)
        try:
            return await self._converse(context, arguments, asked)
        except ServerAway as away:
            return await self._wait_for_server(away)
        except ConnectionLost as lost:
            return self._lost(lost.reason)
        except TimeoutError:
            return self._error(self._unknown(f"it took longer than {self.server.timeout:g} s, and was cancelled"))
        except RuntimeError as error:  # of the SDK: the result does not match what the server declares
            problem = self.connection.clean(str(error))
            return self._error(
                f"The tool ran, but its result cannot be read: {problem}. Check before you call it again."
            )

    async def _converse(
        self, context: ToolContext[Any], arguments: dict[str, Any], asked: Elicitation | None
    ) -> ToolResult:
        """Call the tool, and again for as long as what the server asks was answered before."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CallToolResult, InputRequiredResult

        from wakeful_activities.mcp.content import tool_result

        request = self._request(context, arguments, asked)
        for _ in range(MAX_ROUNDS):
            try:
                answer: Answer = await self.connection.call(request, within=CONNECT_SECONDS)
            except MCPError as error:
                if request.request_state is not None and error.code == INVALID_PARAMS:
                    # The server was started again, and cannot read what it gave us: it has to ask again.
                    request = self._request(context, arguments, asked, from_start=True)
                    continue
                if error.code == URL_ELICITATION_REQUIRED and (page := _page(error.data)) is not None:
                    raise self._suspending(_asking(page, asked)) from None
                return self._error(self.connection.clean(error.message) or f"the server failed with code {error.code}")
            if isinstance(answer, CallToolResult):
                return tool_result(self.input.call.name, self.ref, answer, self.connection.clean)
            if isinstance(answer, InputRequiredResult):
                request = await self._next_round(context, arguments, answer, asked)
            else:
                raise self._suspending(_asking(answer, asked))
        return self._error(f"The server asked for input {MAX_ROUNDS} times in a row, and was not called again.")

    def _request(
        self,
        context: ToolContext[Any],
        arguments: dict[str, Any],
        asked: Elicitation | None,
        *,
        from_start: bool = False,
    ) -> "ToolRequest":
        from wakeful_activities.mcp.connection import ToolRequest
        from wakeful_activities.mcp.questions import result_of

        def on_progress(progress: float, total: float | None, message: str | None) -> None:
            context.report(message, progress=progress / total if total else None, loaded=progress, total=total)

        goes_on = asked is not None and asked.key is not None and not from_start
        return ToolRequest(
            tool=self.ref.tool,
            arguments=arguments,
            input_responses={key: result_of(each) for key, each in asked.answers.items()}
            if asked and goes_on
            else None,
            request_state=asked.request_state if asked and goes_on else None,
            answered=asked.answered if asked else (),
            on_progress=on_progress,
        )

    async def _next_round(
        self,
        context: ToolContext[Any],
        arguments: dict[str, Any],
        required: "InputRequiredResult",
        asked: Elicitation | None,
    ) -> "ToolRequest":
        """The request that gives the server the answers which were recorded before.

        Raises:
            SuspendCall: a question is new.
            ToolError: the server wants something else than an answer of a person.
        """
        from mcp_types import ElicitRequest

        from wakeful_activities.mcp.questions import known_answer, question_of, result_of

        questions: dict[str, ElicitedQuestion] = {}
        answers: dict[str, ElicitedAnswer] = {}
        for key, wanted in (required.input_requests or {}).items():
            if not isinstance(wanted, ElicitRequest):
                raise ToolError(f"the server wants {wanted.method!r} of its client, which Wakeful does not offer")
            question = question_of(wanted.params)
            known = known_answer(question, asked.answered) if asked else None
            if known is None:
                questions[key] = question
            else:
                answers[key] = known
        if questions:
            key, *later = questions
            raise self._suspending(
                Elicitation(
                    question=questions[key],
                    key=key,
                    open={name: questions[name] for name in later},
                    answers=answers,
                    request_state=required.request_state,
                    answered=asked.answered if asked else (),
                )
            )
        if not answers:
            await asyncio.sleep(STATE_ONLY_SECONDS)
        again = self._request(context, arguments, asked, from_start=True)
        responses: InputResponses = {key: result_of(each) for key, each in answers.items()}
        return replace(again, input_responses=responses or None, request_state=required.request_state)

    def _suspending(self, elicitation: Elicitation) -> SuspendCall:
        question, call = elicitation.question, self.input.call
        shown: dict[str, JsonValue] = {"server": self.ref.server, "tool": self.ref.tool, "arguments": call.arguments}
        if question.url is not None:
            shown["url"] = question.url
        warn_of_patterns(question.json_schema, server=self.ref.server, tool=self.ref.tool)
        suspension = Suspension(
            id=suspension_id(call.id),
            action=ELICITATION,
            message=f"{question.message} ({question.url})" if question.url else question.message,
            parameters=shown,
            response_schema=question.json_schema,
        )
        state: JsonValue = elicitation.model_dump(mode="json")
        return SuspendCall(SuspensionTicket(suspension=suspension, pending=call, state=state, runs_if_denied=True))

    async def _wait_for_server(self, away: ServerAway) -> ToolResult:
        what = f"MCP server {away.server!r}"
        problem = f"{what} is away: {away.reason}"
        patience = await self._leave(Lacking(what, problem, reason=away.reason))
        message = f"The call was not executed: {problem}{patience}. Use another tool, or report the problem."
        return self._error(message)

    async def _leave(self, lacking: Lacking) -> str:
        try:
            return waited(await self.others.leave(lacking), "reached")
        except ApplicationError as failure:
            raise AttemptFailed(failure) from None

    def _lost(self, reason: str) -> ToolResult:
        """The outcome of a call whose answer was lost: another attempt, if it may be repeated."""
        problem = f"the connection to MCP server {self.ref.server!r} was lost: {reason}"
        if may_repeat() and executed_before(missing_before()) + 1 < MAX_ATTEMPTS:
            category = ApplicationErrorCategory.BENIGN
            raise AttemptFailed(ApplicationError(problem, type=CONNECTION_LOST, category=category))
        return self._error(self._unknown(problem))

    def _unknown(self, reason: str) -> str:
        return outcome_unknown(self.input.call.name, reason)

    def _error(self, message: str) -> ToolResult:
        return ToolResult.error(self.input.call.name, message)


def _answered(state: JsonValue, resume: ToolCallResume | None) -> Elicitation | None:
    """The question that suspended the call, with the answer that a decision gives; None of another suspension."""
    if state is None or resume is None:
        return None
    asked = Elicitation.model_validate(state)
    return asked.answered_with(_answer(asked.question, resume))


def _answer(question: ElicitedQuestion, resume: ToolCallResume) -> ElicitedAnswer:
    if resume.action is DecisionAction.CANCEL:
        dismissed = isinstance(resume.result, dict) and resume.result.get("action") == "cancel"
        return ElicitedAnswer(action="cancel" if dismissed else "decline")
    content = resume.result if isinstance(resume.result, dict) and question.url is None else None
    return ElicitedAnswer(action="accept", content=content)


def _asking(question: ElicitedQuestion, asked: Elicitation | None) -> Elicitation:
    """A question without a name of its own: the server asked in the middle of a call, and the call begins anew."""
    return Elicitation(question=question, answered=asked.answered if asked else ())


def _page(data: object) -> ElicitedQuestion | None:
    """The first page that a server of the older protocol wants to be visited before the call."""
    pages = data.get("elicitations") if isinstance(data, Mapping) else None
    page = pages[0] if isinstance(pages, list) and pages else None
    if not isinstance(page, Mapping) or not isinstance(page.get("url"), str):
        return None
    return ElicitedQuestion(message=str(page.get("message", "")), url=page["url"])
