"""The MCP server: which tools there are, and which of our functions handles a request."""

from importlib.metadata import version
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotificationParams,
    EmptyResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    SetLevelRequestParams,
    Tool,
    ToolAnnotations,
)

from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.errors import WakefulError
from wakeful.mcp.arguments import agent_schema, cancel_schema, continue_schema
from wakeful.mcp.calls import ToolRequest, cancel_run, continue_run, run_agent
from wakeful.mcp.in_flight import InFlight
from wakeful.mcp.notices import LogLevels
from wakeful.mcp.results import failure, output_schema
from wakeful.mcp.served import CANCEL, CONTINUE, Served

INSTRUCTIONS = (
    "Each tool is an agent that works on your message in a durable run: it continues if you lose the connection. A "
    "result names its thread. Pass `thread_id` to continue that conversation, and a `request_id` of your choice if you "
    f"may have to ask again. If a result says that the run waits, use `{CONTINUE}`."
)

Context = ServerRequestContext[None, Any]


def build_server(served: Served) -> Server[None]:
    """The server, for any transport."""
    in_flight, levels = InFlight(), LogLevels()

    async def list_tools(_ctx: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=tools(served))

    async def call_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        request = ToolRequest(served, in_flight, levels, ctx, params)
        try:
            if params.name == CONTINUE:
                return await continue_run(request)
            if params.name == CANCEL:
                return await cancel_run(request)
            if (agent_id := served.agent_of(params.name)) is not None:
                return await run_agent(request, agent_id)
        except WakefulError as error:
            return failure(str(error))
        names = ", ".join(tool.name for tool in tools(served))
        raise MCPError(code=INVALID_PARAMS, message=f"unknown tool {params.name!r}; there are: {names}")

    async def on_cancelled(ctx: Context, params: CancelledNotificationParams) -> None:
        await in_flight.cancel(served.client, ctx, params)

    async def set_level(ctx: Context, params: SetLevelRequestParams) -> EmptyResult:
        levels.set(ctx, params.level)
        return EmptyResult()

    server: Server[None] = Server(
        "wakeful",
        version=version("wakeful"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
    if served.cancels:
        server.add_notification_handler("notifications/cancelled", CancelledNotificationParams, on_cancelled)
    return server


def tools(served: Served) -> list[Tool]:
    """Every tool: one for each agent, and those that are not agents."""
    return [*(_agent_tool(served, id, name) for id, name in served.tool_names.items()), _continue(served), _cancel()]


def _agent_tool(served: Served, agent_id: str, name: str) -> Tool:
    schema = served.output_schema_of(agent_id)
    return Tool(
        name=name,
        title=agent_id,
        description=served.description_of(agent_id),
        input_schema=agent_schema(),
        output_schema=None if schema is None else output_schema(schema),
    )


def _continue(served: Served) -> Tool:
    description = (
        "Wait for the run of a thread and return its result, or say what it waits for. Use it after a result that is "
        "not finished, or after you lost the answer to a call."
    )
    decides = served.decisions is not ClientDecisions.NONE
    if decides:
        description += (
            " With `decision` or `answer`, it first gives the run what it waits for. That is a person's decision: ask "
            "the person, and never decide yourself."
        )
    return Tool(
        name=CONTINUE,
        description=description,
        input_schema=continue_schema(decisions=decides),
        annotations=ToolAnnotations(destructive_hint=decides, read_only_hint=not decides),
    )


def _cancel() -> Tool:
    return Tool(
        name=CANCEL,
        description=(
            "Cancel the run of a thread, with everything it has started. What it has already done is not undone."
        ),
        input_schema=cancel_schema(),
        annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True),
    )
