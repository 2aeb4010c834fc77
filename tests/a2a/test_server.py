"""An A2A server, as the official client sees it: over real HTTP, Temporal and a worker (B-714)."""

import asyncio
import json
import uuid

import httpx
import pytest
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.constants import TransportProtocol
from a2a.utils.errors import (
    A2AError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from tests.a2a.conftest import calling, own, serving, text_of
from tests.support.counting import counting_client
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful.a2a.parts import data_of, data_part
from wakeful.a2a.task_ids import task_id, thread_of
from wakeful.client.client import Client
from wakeful.client.wake import describe
from wakeful.contract.runs import Adapter, RunStatus

WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
SUBMITTED, CANCELED = TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_CANCELED
REJECTED = TaskState.TASK_STATE_REJECTED
INPUT_REQUIRED, AUTH_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED


def states(events: list[StreamResponse]) -> list[TaskState]:
    """The states that a stream shows, in their order."""
    return [
        (event.task if event.HasField("task") else event.status_update).status.state
        for event in events
        if not event.HasField("artifact_update")
    ]


def streamed_text(events: list[StreamResponse]) -> str:
    """The answer, as a client puts its changes together."""
    text = ""
    for event in events:
        if event.HasField("artifact_update"):
            delta = "".join(part.text for part in event.artifact_update.artifact.parts)
            text = text + delta if event.artifact_update.append else delta
    return text


def question(task: Task) -> tuple[str, object]:
    text, data = task.status.message.parts
    return text.text, data.data.struct_value["call_id"]


async def test_a_message_is_answered_by_a_completed_task(url: str, binding: TransportProtocol, thread_id: str) -> None:
    async with calling(url, thread_id, binding=binding) as caller:
        task = await caller.task(caller.request("add"))
        assert task.status.state == COMPLETED
        assert (task.context_id, text_of(task)) == (thread_id, "the sum is 5")
        assert (set(task.metadata.fields), task.metadata["agentId"]) == ({"runId", "agentId"}, "tester")
        assert await caller.get(task.id) == task


async def test_a_stream_shows_the_task_the_answer_as_it_is_written_and_the_end(
    url: str, binding: TransportProtocol, thread_id: str
) -> None:
    async with calling(url, thread_id, binding=binding, streaming=True) as caller:
        events = await caller.stream(caller.request("add"))
    assert states(events) == [SUBMITTED, WORKING, COMPLETED]
    assert streamed_text(events) == "the sum is 5"


async def test_a_typed_answer_has_its_data(url: str, thread_id: str) -> None:
    async with calling(url, thread_id, agent="clumsy") as caller:
        task = await caller.task(caller.request("two and two?"))
        async with calling(url, f"{thread_id}-streamed", agent="clumsy", streaming=True) as streaming:
            events = await streaming.stream(streaming.request("two and two?"))
    (artifact,) = task.artifacts
    assert artifact.parts[0].text == '{"answer": 4}'
    assert artifact.parts[1].data.struct_value["answer"] == 4
    assert events[-2].artifact_update.artifact.parts[-1].data.struct_value["answer"] == 4


async def test_input_that_is_required_is_given_by_a_message_to_the_task(
    url: str, binding: TransportProtocol, thread_id: str
) -> None:
    async with calling(url, thread_id, binding=binding) as caller:
        asked = await caller.task(caller.request("approve"))
        assert (asked.status.state, question(asked)) == (INPUT_REQUIRED, ("May I launch?", "1-1"))
        answered = await caller.task(caller.request("go ahead", task_id=asked.id))
    assert (answered.id, answered.status.state) == (asked.id, COMPLETED)
    assert '"said":"go ahead"' in text_of(answered)


async def test_a_question_can_be_answered_with_data_or_declined(url: str, thread_id: str) -> None:
    async with calling(url, thread_id) as caller:
        asked = await caller.task(caller.request("approve"))
        answered = await caller.task(caller.request(data_part({"by": [1, 2]}), task_id=asked.id))
        assert '"said":{"by":[1,2]}' in text_of(answered)
        asked = await caller.task(caller.request("approve it again"))
        declining = caller.request("too windy", task_id=asked.id)
        declining.message.metadata["action"] = "cancel"
        declined = await caller.task(declining)
        assert "cancelled by decision: too windy" in text_of(declined)


async def test_an_answer_is_recorded_with_the_program_that_has_sent_it(
    url: str, client: Client, thread_id: str
) -> None:
    async with calling(url, thread_id) as caller:
        asked = await caller.task(caller.request("approve"))
        await caller.task(caller.request("yes", task_id=asked.id))
        program = caller.http.headers["user-agent"]
    (record,) = [each async for each in client.decisions(thread_id=own(thread_id))]
    assert record.decision is not None
    assert (record.decision.actor, record.decision.channel) == (f"A2A client {program}", "a2a")


async def test_a_permission_is_given_by_a_word_or_by_data_and_by_nothing_else(url: str, thread_id: str) -> None:
    async with calling(url, thread_id, agent="ruled") as caller:
        asked = await caller.task(caller.request("one"))
        assert asked.status.state == AUTH_REQUIRED
        with pytest.raises(InvalidParamsError, match='answer with "approve" or "deny"'):
            await caller.task(caller.request("whatever you think", task_id=asked.id))
        paid = await caller.task(caller.request("Approve, it is fine", task_id=asked.id))
        assert (paid.status.state, text_of(paid)) == (COMPLETED, "paid 7")
        asked = await caller.task(caller.request("one more"))
        answer = data_part({"approved": False, "reason": "too much"})
        denied = await caller.task(caller.request(answer, task_id=asked.id))
        assert "too much" in text_of(denied)


async def test_questions_are_asked_one_after_the_other(url: str, thread_id: str) -> None:
    async with calling(url, thread_id, agent="parallel") as caller:
        first = await caller.task(caller.request("two approvals"))
        second = await caller.task(caller.request("yes", task_id=first.id))
        assert second.status.state == INPUT_REQUIRED
        assert {question(first), question(second)} == {("May I launch?", "1-1"), ("May I land?", "1-2")}
        done = await caller.task(caller.request("yes", task_id=first.id))
        assert done.status.state == COMPLETED


async def test_an_answer_that_is_sent_again_answers_no_other_question(url: str, thread_id: str) -> None:
    async with calling(url, thread_id, agent="parallel") as caller:
        first = await caller.task(caller.request("two approvals"))
        answer = caller.request("yes", task_id=first.id)
        second = await caller.task(answer)
        assert await caller.task(answer) == second
        assert {question(first)[1], question(second)[1]} == {"1-1", "1-2"}


async def test_a_message_with_the_same_id_is_sent_once(url: str, client: Client, thread_id: str) -> None:
    async with calling(url, thread_id) as caller:
        request = caller.request("hello")
        first = await caller.task(request)
        assert await caller.task(request) == first
        without_context = caller.request("hello", context_id="")
        one = await caller.task(without_context)
        assert await caller.task(without_context) == one
        other = await caller.task(
            caller.request("goodbye", context_id="", message_id=without_context.message.message_id)
        )
        assert other.context_id != one.context_id
    assert (await client.status(own(thread_id))).runs == 1


async def test_a_context_is_one_conversation_with_a_task_for_each_message(url: str, thread_id: str) -> None:
    async with calling(url, thread_id) as caller:
        tasks = [await caller.task(caller.request(text)) for text in ("one", "two")]
        assert [text_of(task) for task in tasks] == ["hello, one", "hello, two"]
        page = await caller.official.list_tasks(ListTasksRequest(context_id=thread_id, include_artifacts=True))
        assert list(page.tasks) == tasks[::-1]
        first = await caller.official.list_tasks(ListTasksRequest(context_id=thread_id, page_size=1))
        rest = await caller.official.list_tasks(
            ListTasksRequest(context_id=thread_id, page_size=1, page_token=first.next_page_token)
        )
        assert [first.tasks[0].id, rest.tasks[0].id] == [tasks[1].id, tasks[0].id]
        assert (first.total_size, rest.next_page_token, len(first.tasks[0].artifacts)) == (2, "", 0)
        none = ListTasksRequest(context_id=thread_id, status=TaskState.TASK_STATE_FAILED)
        assert not (await caller.official.list_tasks(none)).tasks
        assert not (await caller.official.list_tasks(ListTasksRequest(context_id=f"{thread_id}-none"))).tasks
        with pytest.raises(UnsupportedOperationError, match="name one with contextId"):
            await caller.official.list_tasks(ListTasksRequest())


async def test_a_task_that_is_got_again_costs_one_call_however_long_its_thread_is(
    client: Client, thread_id: str
) -> None:
    counted, calls = counting_client(client.temporal)
    async with Client(counted) as counting, serving(counting) as url, calling(url, thread_id) as caller:
        first = await caller.task(caller.request("hello"))
        last = first
        for number in range(6):
            last = await caller.task(caller.request(f"hello {number}"))
        await caller.get(first.id)
        calls.clear()
        for task in (first, last, first):
            assert await caller.get(task.id) == task
        assert dict(calls) == {"describe_workflow_execution": 3}
        await caller.task(caller.request("one more"))
        await caller.get(last.id)
        calls.clear()
        await caller.get(last.id)
        assert dict(calls) == {"describe_workflow_execution": 1}


async def test_cancel_ends_the_run_and_the_task(url: str, binding: TransportProtocol, thread_id: str) -> None:
    async with calling(url, thread_id, binding=binding) as caller:
        task = await caller.task(caller.request("linger", at_once=True))
        await caller.until(task.id, WORKING)
        cancelled = await caller.official.cancel_task(CancelTaskRequest(id=task.id))
        assert (cancelled.status.state, (await caller.get(task.id)).status.state) == (CANCELED, CANCELED)
        with pytest.raises(TaskNotCancelableError):
            await caller.official.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_message_that_waits_for_its_run_is_a_task_that_can_be_withdrawn(url: str, thread_id: str) -> None:
    async with calling(url, thread_id) as caller:
        asked = await caller.task(caller.request("approve"))
        waiting = await caller.task(caller.request("later", at_once=True))
        assert (await caller.get(waiting.id)).status.state == SUBMITTED
        with pytest.raises(UnsupportedOperationError, match="has not started"):
            await caller.task(caller.request("and this", task_id=waiting.id))
        cancelled = await caller.official.cancel_task(CancelTaskRequest(id=waiting.id))
        assert cancelled.status.state == CANCELED
        assert (await caller.get(asked.id)).status.state == INPUT_REQUIRED
        assert (await caller.official.cancel_task(CancelTaskRequest(id=asked.id))).status.state == CANCELED


async def test_a_message_to_a_task_that_works_steers_it(url: str, thread_id: str) -> None:
    async with calling(url, thread_id) as caller:
        task = await caller.task(caller.request("linger", at_once=True))
        await caller.until(task.id, WORKING)
        steering = caller.request("hurry up", task_id=task.id, at_once=True)
        steered = await caller.task(steering)
        assert (steered.id, steered.status.state) == (task.id, WORKING)
        assert (await caller.official.cancel_task(CancelTaskRequest(id=task.id))).status.state == CANCELED
        with pytest.raises(UnsupportedOperationError, match="without a task id"):
            await caller.task(caller.request("too late", task_id=task.id))


async def test_a_gate_that_blocks_rejects_the_task(url: str, thread_id: str) -> None:
    async with calling(url, thread_id, agent="gated") as caller:
        task = await caller.task(caller.request("unlucky"))
    assert task.status.state == REJECTED
    assert task.status.message.parts[0].text == "thirteen is never paid"


async def test_a_client_subscribes_again_after_the_server_was_restarted(client: Client, thread_id: str) -> None:
    binding = TransportProtocol.HTTP_JSON
    async with serving(client) as url:
        async with calling(url, thread_id, binding=binding, streaming=True) as caller:
            request = caller.request("approve")
            async for event in caller.official.send_message(request):
                if event.HasField("task"):
                    task_id = event.task.id
                    break
        await until_status(client, own(thread_id), RunStatus.WAITING)
    async with (
        Client(client.temporal) as another,
        serving(another) as url,
        calling(url, thread_id, binding=binding, streaming=True) as caller,
    ):
        subscribed = caller.official.subscribe(SubscribeToTaskRequest(id=task_id))
        async with asyncio.timeout(BOUND_SECONDS):
            first = await anext(subscribed)
            assert (first.task.id, first.task.status.state) == (task_id, INPUT_REQUIRED)
            await client.decide(own(thread_id), "1-1", "resume", result="by a person")
            rest = [event async for event in subscribed]
        assert states(rest) == [WORKING, COMPLETED]
        assert "by a person" in streamed_text(rest)
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await anext(caller.official.subscribe(SubscribeToTaskRequest(id=task_id)))


async def test_a_task_is_there_before_a_worker_takes_it(temporal: object, client: Client, thread_id: str) -> None:
    idle = Client(client.temporal, task_queue="no-worker-polls-this")
    async with idle, serving(idle) as url, calling(url, thread_id) as caller:
        request = caller.request("hello", at_once=True)
        task = await caller.task(request)
        assert task.status.state == SUBMITTED
        assert (await caller.get(task.id)).status.state == SUBMITTED
        assert [it.id for it in (await caller.official.list_tasks(ListTasksRequest(context_id=thread_id))).tasks] == [
            task.id
        ]
        assert (await caller.task(request)).id == task.id
    await client.temporal.get_workflow_handle(own(thread_id)).terminate()


async def test_tasks_that_are_not_there_are_not_found(url: str, thread_id: str) -> None:
    async with calling(url, thread_id, streaming=True) as caller:
        known = (await caller.stream(caller.request("hello")))[0].task.id
        thread, _, digest = known.rpartition(".")
        for id in ("nonsense", f"{thread}-no.{digest}", f"{thread}.{'0' * len(digest)}"):
            with pytest.raises(TaskNotFoundError):
                await caller.get(id)
            with pytest.raises(TaskNotFoundError):
                await caller.official.cancel_task(CancelTaskRequest(id=id))
            with pytest.raises(TaskNotFoundError):
                await anext(caller.official.subscribe(SubscribeToTaskRequest(id=id)))
            with pytest.raises(TaskNotFoundError):
                await caller.stream(caller.request("hello", task_id=id))


async def test_threads_that_were_not_opened_over_a2a_are_not_shown(url: str, client: Client, thread_id: str) -> None:
    message_id = uuid.uuid4().hex
    await client.send(thread_id, "hello", agent_id="tester", message_id=message_id)
    await until_status(client, thread_id, RunStatus.DONE)
    async with calling(url, thread_id) as caller:
        assert not (await caller.official.list_tasks(ListTasksRequest(context_id=thread_id))).tasks
        with pytest.raises(TaskNotFoundError):
            await caller.get(task_id(thread_id, message_id))
        task = await caller.task(caller.request("hello", message_id=message_id))
        assert task.context_id == thread_id
    assert (await client.status(thread_id)).runs == 1
    assert (await client.status(own(thread_id))).runs == 1


async def test_a_client_that_takes_an_id_first_does_not_get_the_messages_of_the_application(
    url: str, client: Client, thread_id: str
) -> None:
    async with calling(url, thread_id) as caller:
        await caller.task(caller.request("hello"))
        await client.send(thread_id, "my PIN is 7", agent_id="tester")
        await until_status(client, thread_id, RunStatus.DONE)
        (only,) = (await caller.official.list_tasks(ListTasksRequest(context_id=thread_id))).tasks
    assert (await client.status(own(thread_id))).runs == 1
    assert not any("PIN" in message.text for message in await client.transcript(own(thread_id)))
    assert thread_of(only.id) == own(thread_id)


async def test_a_context_of_an_older_release_continues_in_its_thread(url: str, client: Client, thread_id: str) -> None:
    message_id = uuid.uuid4().hex
    await client.send(thread_id, "hello", agent_id="tester", message_id=message_id, adapter=Adapter.A2A)
    await until_status(client, thread_id, RunStatus.DONE)
    async with calling(url, thread_id) as caller:
        assert (await caller.get(task_id(thread_id, message_id))).context_id == thread_id
        again = await caller.task(caller.request("hello", message_id=message_id))
        assert again.id == task_id(thread_id, message_id)
        task = await caller.task(caller.request("once more"))
        assert (task.context_id, thread_of(task.id)) == (thread_id, thread_id)
        listed = (await caller.official.list_tasks(ListTasksRequest(context_id=thread_id))).tasks
    assert {it.id for it in listed} == {again.id, task.id}
    assert await describe(client.temporal, own(thread_id)) is None


async def test_two_tenants_have_contexts_of_the_same_name(client: Client, thread_id: str) -> None:
    async with serving(client, tenant="acme") as url, calling(url, thread_id) as caller:
        first = await caller.task(caller.request("hello"))
    async with serving(client, tenant="b:/%") as url, calling(url, thread_id) as caller:
        second = await caller.task(caller.request("hello"))
        with pytest.raises(TaskNotFoundError):
            await caller.get(first.id)
    assert (first.context_id, second.context_id) == (thread_id, thread_id)
    assert first.id != second.id


@pytest.mark.parametrize(("agent", "text"), [("ruled", "one"), ("gated", "one"), ("tester", "approve")])
async def test_clients_do_not_decide_whether_a_call_may_run_unless_the_server_was_started_so(
    client: Client, thread_id: str, agent: str, text: str
) -> None:
    async with serving(client, decisions="questions") as url, calling(url, thread_id, agent=agent) as caller:
        task = await caller.task(caller.request(text))
        assert task.status.state == AUTH_REQUIRED
        note, data = task.status.message.parts
        assert "this service's staff" in note.text
        assert data_of(data) == {"kind": "auth", "decided_by": "staff"}
        for answer in ("approve", data_part({"approved": True}), data_part({"approved": False})):
            with pytest.raises(InvalidParamsError, match="staff of this service"):
                await caller.task(caller.request(answer, task_id=task.id))
        assert (await caller.get(task.id)).status.state == AUTH_REQUIRED
        await client.decide(own(thread_id), "1-1", "resume")
        await caller.until(task.id, COMPLETED)


async def test_agents_that_a_server_does_not_serve_are_not_shown(url: str, client: Client) -> None:
    async with serving(client, agents={"short": "Another."}) as other, calling(other, "") as caller:
        opened = await caller.task(caller.request("hello"))
        async with calling(url, opened.context_id) as stranger:
            with pytest.raises(TaskNotFoundError):
                await stranger.get(opened.id)


async def test_malformed_requests_are_refused_with_what_is_wrong(url: str, thread_id: str) -> None:
    async with calling(url, thread_id) as caller:
        for context_id, problem in (("line\nbreak", "control characters"), ("x" * 197, "201 bytes")):
            with pytest.raises(InvalidParamsError, match=problem):
                await caller.task(caller.request("hello", context_id=context_id))
        with pytest.raises(InvalidParamsError, match="no content"):
            await caller.task(caller.request("  "))
        with pytest.raises(InvalidParamsError, match="no agent 'nobody' is served"):
            await caller.task(caller.request("hello", tenant="nobody"))
        with pytest.raises(InvalidParamsError):
            await caller.official.get_task(GetTaskRequest(id="x", history_length=-1))
        task = await caller.task(caller.request("hello"))
        with pytest.raises(InvalidParamsError, match="does not belong to context"):
            await caller.task(caller.request("hello", task_id=task.id, context_id="another"))


async def test_bodies_that_are_not_requests_are_answered_with_errors(url: str) -> None:
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=url, headers=headers) as http:
        assert (await http.post("/", content="{")).json()["error"]["code"] == -32700
        unknown = {"jsonrpc": "2.0", "id": 1, "method": "Levitate", "params": {}}
        assert (await http.post("/", content=json.dumps(unknown))).json()["error"]["code"] == -32601
        assert (await http.post("/message:send", content="{")).status_code == 400
        assert (await http.post("/message:send", json={})).status_code == 400
        assert (await http.get("/nowhere")).status_code == 404


async def test_a_server_with_a_token_serves_only_clients_that_have_it(client: Client, thread_id: str) -> None:
    async with serving(client, token="s3cret") as url:
        async with calling(url, thread_id, token="s3cret") as caller:
            assert (await caller.task(caller.request("hello"))).status.state == COMPLETED
            extended = await caller.official.get_extended_agent_card(GetExtendedAgentCardRequest())
            assert extended.capabilities.extended_agent_card
        for token in (None, "s3cre", "s3cret2"):
            async with calling(url, thread_id, token=token) as caller:  # the card is public
                with pytest.raises(A2AError):
                    await caller.task(caller.request("hello"))
        async with httpx.AsyncClient() as http:
            refused = await http.get(f"{url}/tasks")
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_a_card_can_be_cached_and_asked_for_again_by_its_tag(url: str) -> None:
    async with httpx.AsyncClient() as http:
        for path in ("", "/gated"):
            card = await http.get(f"{url}{path}/.well-known/agent-card.json")
            assert (card.status_code, card.headers["cache-control"]) == (200, "public, max-age=300")
            again = await http.get(str(card.url), headers={"If-None-Match": card.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")


async def test_a_server_without_a_token_has_no_extended_card(url: str, thread_id: str) -> None:
    async with calling(url, thread_id) as caller:
        refused = await caller.http.get(f"{url}/extendedAgentCard", headers={"A2A-Version": "1.0"})
    assert (refused.status_code, refused.json()["error"]["details"][0]["reason"]) == (400, "UNSUPPORTED_OPERATION")


async def test_the_threads_of_a_server_belong_to_its_tenant(client: Client, thread_id: str) -> None:
    async with serving(client, tenant="acme") as url, calling(url, thread_id) as caller:
        task = await caller.task(caller.request("hello"))
        assert (await client.status(f"a2a@acme:{thread_id}")).identity.tenant == "acme"
    async with serving(client) as url, calling(url, thread_id) as stranger:
        with pytest.raises(TaskNotFoundError):
            await stranger.get(task.id)


async def test_a_thread_that_is_terminated_fails_its_task(url: str, client: Client, thread_id: str) -> None:
    async with calling(url, thread_id) as caller:
        asked = await caller.task(caller.request("approve"))
        await client.temporal.get_workflow_handle(own(thread_id)).terminate("by hand")
        failed = await caller.until(asked.id, TaskState.TASK_STATE_FAILED)
    assert "terminated" in failed.status.message.parts[0].text


@pytest.mark.parametrize("streaming", [False, True])
async def test_nothing_follows_a_task_whose_client_has_gone(
    url: str, client: Client, thread_id: str, streaming: bool
) -> None:
    async with calling(url, thread_id, streaming=streaming) as caller:
        sending = asyncio.create_task(caller.stream(caller.request("linger")))
        await until(client, own(thread_id), lambda view: bool(view.calls))
        sending.cancel()
        await asyncio.wait({sending})
    async with asyncio.timeout(BOUND_SECONDS), calling(url, thread_id) as caller:
        while any("TreeWatcher" in repr(task.get_coro()) for task in asyncio.all_tasks()):
            await asyncio.sleep(0.05)
        (task,) = (await caller.official.list_tasks(ListTasksRequest(context_id=thread_id))).tasks
        assert task.status.state == WORKING
        await caller.official.cancel_task(CancelTaskRequest(id=task.id))
