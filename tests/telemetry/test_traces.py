"""One trace per run: what is below what, over activities, children, decisions and executions."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from pydantic import JsonValue
from temporalio.client import Client as TemporalClient

from tests.support.subagent_app import delegate, plan, send, spawn, written
from tests.support.traces import Spans, Tree, attributes_of, context_of, forest, links_of, named
from tests.support.waiting import until_status
from wakeful import Client, RunStatus
from wakeful.connection import EmbeddedServer
from wakeful.contract.runs import ThreadMode
from wakeful.telemetry import names

CHAT: Tree = ("chat default", [("attempt", [])])
PLANNED: Tree = ("chat planner", [("attempt", [])])


@contextmanager
def caller(name: str = "handle request") -> Iterator[trace.Span]:
    """A span of the program that uses Wakeful."""
    with trace.get_tracer("caller").start_as_current_span(name) as span:
        yield span


async def test_a_run_is_one_trace_below_its_caller(client: Client, spans: Spans, thread_id: str) -> None:
    """B-840"""
    with caller():
        await client.run("tester", "add", thread_id=thread_id)
    steps = [("step", [CHAT, ("execute_tool add", [])]), ("step", [CHAT])]
    found = await spans.of_thread(thread_id)
    assert forest(found) == [("handle request", [("start tester", [("invoke_agent tester", steps)])])]
    (run,) = named(found, "invoke_agent tester")
    about = attributes_of(run)
    assert about.pop(names.RUN_ID)
    assert about.pop(names.RUN_DURATION) >= 0
    assert about == {
        names.OPERATION: "invoke_agent",
        names.AGENT: "tester",
        names.CONVERSATION: thread_id,
        names.PART: 1,
        names.OUTCOME: "natural",
        names.REASON: "natural_end",
        names.RUN_STEPS: 2,
        names.INPUT_TOKENS: about[names.INPUT_TOKENS],
        names.OUTPUT_TOKENS: about[names.OUTPUT_TOKENS],
    }


async def test_a_run_that_a_foreign_client_starts_is_the_root_of_its_trace(
    server: EmbeddedServer, client: Client, spans: Spans, thread_id: str
) -> None:
    plain = await TemporalClient.connect(server.address)
    request = {"agent_id": "tester", "input": "hello"}
    await plain.execute_workflow("AgentRun", request, id=thread_id, task_queue=client.task_queue)
    assert forest(await spans.of_thread(thread_id)) == [("invoke_agent tester", [("step", [CHAT])])]


async def test_a_run_that_continues_as_new_is_one_trace_with_a_span_for_each_part(
    restless: Client, spans: Spans, thread_id: str
) -> None:
    await restless.run("tester", "add", thread_id=thread_id)
    found = await spans.of_thread(thread_id)
    parts = named(found, "invoke_agent tester")
    assert [attributes_of(part)[names.PART] for part in parts] == list(range(1, len(parts) + 1))
    assert len(parts) > 2
    assert [attributes_of(part).get(names.CONTINUED) for part in parts] == [True] * (len(parts) - 1) + [None]
    ((root, below),) = forest(found)
    assert (root, {name for name, _ in below}) == ("start tester", {"invoke_agent tester"})
    steps = [step for _, steps in below for step in steps]
    assert steps == [("step", [CHAT, ("execute_tool add", [])]), ("step", [CHAT])]
    whole = (parts[-1].end_time or 0) - (parts[0].start_time or 0)
    assert attributes_of(parts[-1])[names.RUN_DURATION] == whole / 1e9
    assert len({context_of(span) for span in found}) == len(found)


async def test_a_decision_links_to_its_decider_and_says_how_long_the_call_waited(
    client: Client, spans: Spans, thread_id: str
) -> None:
    await client.start("tester", "approve", thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    with caller("a person decides") as person:
        await client.decide(thread_id, "1-1", "resume")
    found = await spans.of_thread(thread_id)
    executed: Tree = ("execute_tool approve", [])
    first_step = ("step", [CHAT, executed, ("await_decision approve", []), executed])
    assert forest(found) == [("start tester", [("invoke_agent tester", [first_step, ("step", [CHAT])])])]
    (decision,) = named(found, "await_decision approve")
    about = attributes_of(decision)
    assert (about[names.DECISION_ACTION], about[names.TOOL_CALL_ID]) == ("resume", "1-1")
    assert about[names.SUSPENSION_DURATION] == ((decision.end_time or 0) - (decision.start_time or 0)) / 1e9 > 0
    (decided,) = named(spans.trace(person.get_span_context().trace_id), "decide")
    assert links_of(decision) == [(names.LINK_DECIDER, context_of(decided))]
    outcomes = [attributes_of(span)[names.TOOL_OUTCOME] for span in named(found, "execute_tool approve")]
    assert outcomes == ["suspended", "succeeded"]


async def test_delegates_and_background_agents_and_tools_are_below_the_calls_that_started_them(
    planners: Client, spans: Spans, thread_id: str
) -> None:
    child = plan([("work", {"what": "the sums"})])
    root = plan([delegate(child)], [spawn(plan(), name="scout")], [("dig", {"where": "garden"})])
    await planners.run("node", written(root), thread_id=thread_id)
    found = await spans.of_thread(thread_id)
    ((_, (run,)),) = forest(found)
    work = ("invoke_agent node", [("step", [PLANNED, ("execute_tool work", [])]), ("step", [PLANNED])])
    idle = ("invoke_agent node", [("step", [PLANNED])])
    steps = [step for step in run[1] if step != ("await_tasks", [])]
    assert steps[0] == ("step", [PLANNED, ("execute_tool agent_run_node", [work])])
    assert steps[1] == ("step", [PLANNED, ("execute_tool spawn_agent", [idle])])
    assert steps[2] == ("step", [PLANNED, ("execute_tool dig", [("execute_tool dig", [])])])
    assert ("await_tasks", []) in run[1]
    assert len({context_of(span) for span in found}) == len(found)
    (delegated,) = [span for span in found if attributes_of(span).get(names.PARENT_CALL) == "1-1"]
    assert attributes_of(delegated)[names.PARENT_THREAD] == thread_id


async def test_messages_to_a_busy_run_are_links_and_one_to_an_idle_thread_is_the_parent(
    client: Client, spans: Spans, thread_id: str
) -> None:
    await client.start("tester", "approve", thread_id=thread_id, mode=ThreadMode.THREAD)
    await until_status(client, thread_id, RunStatus.WAITING)
    with caller("steer") as steering:
        await client.send(thread_id, "be quick", on_busy="steer")
    await client.decide(thread_id, "1-1", "resume")
    found = await spans.of_thread(thread_id)
    (run,) = named(found, "invoke_agent tester")
    (sent,) = named(spans.trace(steering.get_span_context().trace_id), "send")
    assert links_of(run) == [(names.LINK_SENDER, context_of(sent))]
    with caller("ask again"):
        await client.send(thread_id, "add")
    ((root, (below,)),) = forest(await spans.of_thread(thread_id, ended=2))
    assert (root, below[0], below[1][0][0]) == ("ask again", "send", "invoke_agent tester")
    await client.close(thread_id)


async def test_a_thread_is_woken_in_the_trace_of_the_message_that_wakes_it(
    client: Client, spans: Spans, thread_id: str
) -> None:
    await client.run("tester", "hello", thread_id=thread_id)
    with caller("wake"):
        await client.send(thread_id, "add")
    ((root, (sent,)),) = forest(await spans.of_thread(thread_id, ended=2))
    assert (root, sent[0], sent[1][0][0]) == ("wake", "send", "invoke_agent tester")
    await client.close(thread_id)


async def test_mail_begins_a_trace_that_links_to_its_sender(planners: Client, spans: Spans, thread_id: str) -> None:
    reader = f"{thread_id}-reader"
    await planners.run("node", written(plan(say="nothing yet")), thread_id=reader)
    to: dict[str, JsonValue] = {"relation": "agent", "agent_id": "node", "thread_id": reader}
    await planners.run("node", written(plan([send(to, "hello")])), thread_id=thread_id)
    sent = named(await spans.of_thread(thread_id), "invoke_agent node")[0]
    found = await spans.of_thread(reader, ended=2)
    ((root, _),) = forest(found)
    (run,) = named(found, "invoke_agent node")
    assert root == "invoke_agent node"
    assert links_of(run) == [(names.LINK_SENDER, context_of(sent))]
    await planners.close(reader)


async def test_a_fork_links_to_the_step_that_it_continues_after(client: Client, spans: Spans, thread_id: str) -> None:
    await client.run("tester", "add", thread_id=thread_id)
    origin = await spans.of_thread(thread_id)
    fork = await client.fork(thread_id, at=1, new_thread_id=f"{thread_id}-fork")
    found = await spans.of_thread(fork)
    assert forest(found) == [("fork tester", [("invoke_agent tester", [("step", [CHAT])])])]
    first_step = context_of(named(origin, "step")[0])
    assert [links_of(span) for span in found[:2]] == [[(names.LINK_ORIGIN, first_step)]] * 2


async def test_a_handoff_is_an_event_of_the_run(planners: Client, spans: Spans, thread_id: str) -> None:
    await planners.run("front", written(plan([("handoff_to_back", {})])), thread_id=thread_id)
    found = await spans.of_thread(thread_id)
    (run,) = named(found, "invoke_agent front")
    (event,) = run.events
    assert (event.name, dict(event.attributes or {})) == (
        names.EVENT_HANDOFF,
        {names.HANDOFF_FROM: "front", names.HANDOFF_TO: "back"},
    )
    assert [attributes_of(step)[names.AGENT] for step in named(found, "step")] == ["front", "back"]
