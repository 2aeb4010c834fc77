"""The push configs of tasks: set, read and deleted in Temporal. A workflow of the thread keeps and uses them.

They are read from its history, so no worker is needed. Their secrets are shown to no client.
"""

from a2a.types import AuthenticationInfo, TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from wakeful.a2a.tasks import TaskRef
from wakeful.a2a.webhooks import find_address, parse_webhook
from wakeful.client.client import Client
from wakeful.contract import ids, names
from wakeful.contract.decisions import ClientDecisions
from wakeful.contract.push import PushConfig, PushConfigRef, PushState, has_room
from wakeful.history.decoder import Payloads
from wakeful.rpc_errors import describe_execution

NO_CODEC = (
    "the config has a token or credentials, and this server would write them to Temporal's history in clear text: "
    "leave them out, or have the server and its workers connect with a payload codec that encrypts (--client)"
)
ID_LENGTH = 200

MAX_PER_TASK = 10
MAX_PER_CONTEXT = 50
"""How many webhooks the tasks of a context may have: each state is posted to all of them."""


class PushConfigs:
    """The push configs of a client's tasks.

    Args:
        private: webhooks may be at addresses that are not public.
        decisions: what clients may decide, as the notifications tell them.
    """

    def __init__(self, client: Client, *, private: bool, decisions: ClientDecisions) -> None:
        self._client = client
        self._private = private
        self._decisions = decisions

    async def check(self, given: TaskPushNotificationConfig) -> None:
        """Refuse a config that the server must not use.

        Raises:
            InvalidParamsError: it has secrets that history would show, or an address that cannot be posted to.
            WebhookRefused: the server does not post to its address.
        """
        has_secrets = bool(given.token or given.authentication.credentials)
        if has_secrets and self._client.temporal.data_converter.payload_codec is None:
            raise InvalidParamsError(NO_CODEC)
        for value in (given.token, given.authentication.scheme, given.authentication.credentials):
            if not (value.isascii() and value.isprintable()):
                raise InvalidParamsError("the config's token, scheme or credentials cannot be the value of a header")
        if len(given.id) > ID_LENGTH:
            raise InvalidParamsError(f"the config's id has more than {ID_LENGTH} characters")
        await find_address(parse_webhook(given.url), private=self._private)

    async def set(self, ref: TaskRef, given: TaskPushNotificationConfig) -> PushConfig:
        """Post every state of the task, from its first on, also those that it has had. The config was checked.

        Raises:
            InvalidParamsError: the task, or its context, has as many configs as it may have.
        """
        await self.check_number(ref, given)
        config = PushConfig(
            id=given.id or ref.id,
            task_id=ref.id,
            message_id=ref.message_id,
            url=given.url,
            token=given.token or None,
            scheme=given.authentication.scheme or None,
            credentials=given.authentication.credentials or None,
            private=self._private,
            decisions=self._decisions,
            per_task=MAX_PER_TASK,
            per_thread=MAX_PER_CONTEXT,
        )
        await self._client.temporal.start_workflow(
            names.WORKFLOW_A2A_PUSH,
            PushState(thread_id=ref.thread_id),
            id=ids.push_id(ref.thread_id),
            task_queue=self._client.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary="push notifications of A2A tasks",
            start_signal=names.SIGNAL_SET_PUSH,
            start_signal_args=[config],
        )
        return config

    async def get(self, ref: TaskRef, id: str) -> PushConfig:
        """One config of a task.

        Raises:
            TaskNotFoundError: it has none with this id.
        """
        for config in await self.list(ref):
            if config.id == id:
                return config
        raise TaskNotFoundError(f"task {ref.id!r} has no push config {id!r}")

    async def check_number(self, ref: TaskRef, given: TaskPushNotificationConfig) -> None:
        """Refuse one config too many. Of two that come at once, the workflow drops the later one.

        Raises:
            InvalidParamsError: the task, or its context, has as many as it may have.
        """
        new = PushConfigRef(task_id=ref.id, id=given.id or ref.id)
        known = [each for each in await self._all(ref) if each.ref != new]
        of_task = sum(each.task_id == ref.id for each in known)
        if of_task >= MAX_PER_TASK or len(known) >= MAX_PER_CONTEXT:
            raise InvalidParamsError(
                f"a task may have {MAX_PER_TASK} push configs, and the tasks of a context {MAX_PER_CONTEXT}: delete one"
            )

    async def list(self, ref: TaskRef) -> "list[PushConfig]":
        """The configs of a task, in the order in which they were set."""
        return [config for config in await self._all(ref) if config.task_id == ref.id]

    async def _all(self, ref: TaskRef) -> tuple[PushConfig, ...]:
        """The configs of all tasks of the context."""
        push_id, temporal = ids.push_id(ref.thread_id), self._client.temporal
        described = await describe_execution(temporal, push_id)
        if described is None or described.status is not WorkflowExecutionStatus.RUNNING:
            return ()
        configs = dict[PushConfigRef, PushConfig]()
        handle = temporal.get_workflow_handle(push_id, run_id=described.run_id)
        async for event in handle.fetch_history_events():
            await self._take(event, configs)
        return tuple(configs.values())

    async def delete(self, ref: TaskRef, id: str) -> None:
        """Post no more states to this webhook; one that does not exist is no error."""
        handle = self._client.temporal.get_workflow_handle(ids.push_id(ref.thread_id))
        try:
            await handle.signal(names.SIGNAL_DELETE_PUSH, PushConfigRef(task_id=ref.id, id=id))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def _take(self, event: HistoryEvent, configs: dict[PushConfigRef, PushConfig]) -> None:
        payloads = Payloads(self._client.temporal.data_converter)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            given = event.workflow_execution_started_event_attributes.input
            for kept in (await payloads.value(given, PushState)).subscriptions:
                configs[kept.config.ref] = kept.config
        signal = event.workflow_execution_signaled_event_attributes
        if signal.signal_name == names.SIGNAL_SET_PUSH:
            config = await payloads.value(signal.input, PushConfig)
            if config.ref in configs or has_room(config, configs):
                configs[config.ref] = config
        elif signal.signal_name == names.SIGNAL_DELETE_PUSH:
            configs.pop(await payloads.value(signal.input, PushConfigRef), None)


def shown_config(config: PushConfig) -> TaskPushNotificationConfig:
    """A config as every client of the server may see it: without its token and credentials."""
    authentication = AuthenticationInfo(scheme=config.scheme) if config.scheme else None
    return TaskPushNotificationConfig(
        task_id=config.task_id, id=config.id, url=config.url, authentication=authentication
    )
