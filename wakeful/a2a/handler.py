"""Every operation of A2A, on top of `wakeful.client`. The server keeps nothing: another one can take over at any time.

a2a-sdk's routes are above it: they parse requests and write answers, as JSON-RPC and as HTTP+JSON.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import apply_history_length, validate_history_length
from starlette.requests import Request
from typing_extensions import override

from wakeful.a2a.answering import actor_of
from wakeful.a2a.cards import ServedAgent, card
from wakeful.a2a.errors import translating
from wakeful.a2a.following import TaskEvent, TaskFollower
from wakeful.a2a.listing import page_of
from wakeful.a2a.push_configs import PushConfigs, shown_config
from wakeful.a2a.reading import NotShared, TaskReader
from wakeful.a2a.sending import Sender, Turn
from wakeful.a2a.task_ids import thread_of
from wakeful.a2a.tasks import TERMINAL, TaskRef
from wakeful.client.client import Client
from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.errors import ChangeRefused, NoAnswer

REQUEST = "request"
"""Under which key the state of a call has the HTTP request."""

CANCELLED_WITHIN_SECONDS = 30.0
"""How long a cancel waits for the end of its run; a tool may notice it late."""


class WakefulRequestHandler(RequestHandler):
    """Answers the requests of clients for some agents."""

    def __init__(
        self,
        client: Client,
        agents: tuple[ServedAgent, ...],
        *,
        public: AgentCard,
        tenant: str | None,
        decisions: ClientDecisions,
        push_private: bool,
    ) -> None:
        self._client = client
        self._agents = {agent.id: agent for agent in agents}
        self._public = public
        self._tenant = tenant
        self._reader = TaskReader(client, self._agents, tenant=tenant, decisions=decisions)
        self._sender = Sender(client, self._reader, tenant=tenant)
        self._push_configs = PushConfigs(client, private=push_private, decisions=decisions)

    @override
    @validate_request_params
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        validate_history_length(params.configuration)
        with translating():
            turn = await self._send(params, context, live=False)
            if not (params.configuration.return_immediately or turn.is_over):
                await self._wait(turn, context)
        return apply_history_length(turn.task, params.configuration)

    @override
    @validate_request_params
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[TaskEvent, None]:
        validate_history_length(params.configuration)
        with translating():
            turn = await self._send(params, context, live=True)
            yield apply_history_length(turn.task, params.configuration)
            if turn.is_over:
                return
            async with aclosing(self._follower(turn).events()) as events:
                async for event in events:
                    yield event

    @override
    @validate_request_params
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[TaskEvent, None]:
        with translating():
            turn = await self._find(params.id)
            if turn.task.status.state in TERMINAL:
                raise UnsupportedOperationError(f"task {params.id!r} has ended: get it instead")
            yield turn.task
            async with aclosing(self._follower(turn).events()) as events:
                async for event in events:
                    yield event

    @override
    @validate_request_params
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        validate_history_length(params)
        with translating():
            return apply_history_length((await self._find(params.id)).task, params)

    @override
    @validate_request_params
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        validate_history_length(params)
        if not params.context_id:
            raise UnsupportedOperationError("tasks are listed by context: name one with contextId")
        with translating():
            try:
                tree = await self._reader.context(params.context_id)
            except NotShared:
                tree = None
            tasks = [] if tree is None else await self._reader.tasks(tree)
        return page_of(tasks, params)

    @override
    @validate_request_params
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        with translating():
            turn = await self._find(params.id)
            if turn.task.status.state in TERMINAL:
                raise TaskNotCancelableError(f"task {params.id!r} has ended")
            await self._cancel(turn)
            with suppress(TimeoutError):
                async with asyncio.timeout(CANCELLED_WITHIN_SECONDS):
                    await self._wait(turn, context)
        return turn.task

    @override
    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        if not self._public.capabilities.extended_agent_card:
            raise UnsupportedOperationError("there is an extended card only on a server with a token")
        agents = [self._agent(context)] if context.tenant else list(self._agents.values())
        url = self._public.supported_interfaces[0].url
        return card(agents, url=url, has_token=True, extended=True)

    @override
    @validate_request_params
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        with translating():
            turn = await self._find(params.task_id)
            await self._push_configs.check(params)
            return shown_config(await self._push_configs.set(turn.ref, params))

    @override
    @validate_request_params
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        with translating():
            turn = await self._find(params.task_id)
            return shown_config(await self._push_configs.get(turn.ref, params.id or params.task_id))

    @override
    @validate_request_params
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        with translating():
            turn = await self._find(params.task_id)
            configs = await self._push_configs.list(turn.ref)
        return ListTaskPushNotificationConfigsResponse(configs=map(shown_config, configs))

    @override
    @validate_request_params
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        with translating():
            turn = await self._find(params.task_id)
            await self._push_configs.delete(turn.ref, params.id or params.task_id)

    async def _send(self, params: SendMessageRequest, context: ServerCallContext, *, live: bool) -> Turn:
        agent = self._agent(context)
        message, given = params.message, params.configuration.task_push_notification_config
        has_push = params.configuration.HasField("task_push_notification_config")

        async def check(ref: TaskRef) -> None:
            if has_push:
                await self._push_configs.check_number(ref, given)

        if has_push:  # it is refused before the message is sent
            await self._push_configs.check(given)
        if message.task_id:
            turn = await self._sender.reply(message, actor=_actor(context), live=live, check=check)
        else:
            turn = await self._sender.begin(agent.id, message, live=live, check=check)
        if has_push and turn.task.status.state not in TERMINAL:
            await self._push_configs.set(turn.ref, given)
        return turn

    def _agent(self, context: ServerCallContext) -> ServedAgent:
        """The agent that a request names as its tenant; the first one, if it names none."""
        if not context.tenant:
            return next(iter(self._agents.values()))
        if (agent := self._agents.get(context.tenant)) is None:
            raise InvalidParamsError(f"no agent {context.tenant!r} is served; tenants: {', '.join(self._agents)}")
        return agent

    async def _find(self, id: str) -> Turn:
        """A task, as it is.

        Raises:
            TaskNotFoundError: there is none with this id that clients may see.
        """
        thread_id = thread_of(id)
        try:
            tree = None if thread_id is None else await self._reader.tree(thread_id)
        except NotShared:
            tree = None
        found = None if tree is None else await self._reader.find(tree, id)
        if tree is None or found is None:
            raise TaskNotFoundError(f"there is no task {id!r}")
        return Turn(tree, found.ref, found.task)

    def _follower(self, turn: Turn) -> TaskFollower:
        return TaskFollower(self._client, self._reader, turn.tree, turn.ref, turn.task)

    async def _wait(self, turn: Turn, context: ServerCallContext) -> None:
        """Wait until the task is settled, or the client has gone: a run may take days."""
        follower = self._follower(turn)

        async def follow() -> None:
            async with aclosing(follower.events()) as events:
                async for _ in events:
                    turn.task = follower.task

        following = asyncio.create_task(follow())
        gone = asyncio.create_task(_disconnected(context.state[REQUEST]))
        try:
            await asyncio.wait({following, gone}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                await following
        finally:
            following.cancel()
            gone.cancel()
        turn.task = follower.task

    async def _cancel(self, turn: Turn) -> None:
        """Withdraw a message that no run has read; else cancel its run."""
        thread_id, message_id = turn.ref.thread_id, turn.ref.message_id
        if turn.tree.root.run_of(message_id) is None:
            try:
                await self._client.withdraw(thread_id, [message_id], tenant=self._tenant, confirm=True)
            except NoAnswer:  # it is in history, and a worker will withdraw it
                return
            except ChangeRefused:  # a run has read it meanwhile
                turn.tree = (await self._find(turn.ref.id)).tree
            else:
                return
        if turn.tree.root.run_of(message_id) is turn.tree.root.newest:
            await self._client.cancel(thread_id, reason="cancelled over A2A")


def _actor(context: ServerCallContext) -> str:
    """Who sends a request. A user is known if the served app is wrapped in Starlette's `AuthenticationMiddleware`."""
    user = context.user.user_name if context.user.is_authenticated else ""
    return actor_of(user, context.state.get("headers", {}).get("user-agent", ""))


async def _disconnected(request: Request) -> None:
    """Return when the client has gone; its request was read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
