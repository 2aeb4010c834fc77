"""LangGraph with its Temporal plugin: the graph is in the workflow, its nodes or tasks are activities.

With the Graph API, the plugin passes the whole state to every node. With the Functional API, the author chooses what
each task receives: here the model gets the conversation, and the tool gets its arguments.
"""

import operator
from datetime import timedelta
from typing import Annotated, Any

from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from temporalio import workflow
from temporalio.client import Client
from temporalio.langgraph import LangGraphPlugin, graph
from temporalio.langgraph import entrypoint as registered_entrypoint
from temporalio.worker import Worker
from typing_extensions import TypedDict

from benchmarks.peers.worker import call_id, plain_worker
from benchmarks.workload import Work, padding, scripted_answer

GRAPH = "graph"
ENTRYPOINT = "entrypoint"
_OPTIONS = {"execute_in": "activity", "start_to_close_timeout": timedelta(minutes=10)}

Message = dict[str, Any]


class State(TypedDict):
    messages: Annotated[list[Message], operator.add]


def _answer(messages: list[Message]) -> Message:
    done = sum(message["role"] == "tool" for message in messages)
    answer = scripted_answer(Work.parse(messages[0]["content"]), done)
    if answer.tool is None:
        return {"role": "assistant", "content": answer.text}
    call = {"id": call_id(done), "name": answer.tool, "args": answer.arguments}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _tool_result(call: dict[str, Any]) -> Message:
    return {"role": "tool", "content": padding(**call["args"]), "tool_call_id": call["id"]}


async def model_node(state: State) -> dict[str, list[Message]]:
    return {"messages": [_answer(state["messages"])]}


async def tool_node(state: State) -> dict[str, list[Message]]:
    return {"messages": [_tool_result(call) for call in state["messages"][-1]["tool_calls"]]}


async def next_node(state: State) -> str:
    return "tools" if "tool_calls" in state["messages"][-1] else END


def build_graph() -> Any:
    graph = StateGraph(State)
    graph.add_node("model", model_node, metadata={**_OPTIONS})
    graph.add_node("tools", tool_node, metadata={**_OPTIONS})
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", next_node)
    graph.add_edge("tools", "model")
    return graph


@task
async def call_model(messages: list[Message]) -> Message:
    return _answer(messages)


@task
async def call_tool(call: dict[str, Any]) -> Message:
    return _tool_result(call)


@entrypoint()
async def agent(question: str) -> str:
    messages = [_question(question)]
    while True:
        answer = await call_model(messages)
        messages.append(answer)
        if "tool_calls" not in answer:
            return str(answer["content"])
        for call in answer["tool_calls"]:
            messages.append(await call_tool(call))


@workflow.defn
class LangGraphRun:
    @workflow.run
    async def run(self, question: str) -> str:
        # Each step is two supersteps of the graph.
        config = {"recursion_limit": 2 * Work.parse(question).steps + 2}
        state = await graph(GRAPH).compile().ainvoke({"messages": [_question(question)]}, config)
        return str(state["messages"][-1]["content"])


@workflow.defn
class LangGraphFunctionalRun:
    @workflow.run
    async def run(self, question: str) -> str:
        return str(await registered_entrypoint(ENTRYPOINT).ainvoke(question))


def _question(text: str) -> Message:
    return {"role": "user", "content": text}


async def worker(address: str, task_queue: str) -> Worker:
    plugin = LangGraphPlugin(
        graphs={GRAPH: build_graph()},
        entrypoints={ENTRYPOINT: agent},
        tasks=[call_model, call_tool],
        activity_options={"call_model": {**_OPTIONS}, "call_tool": {**_OPTIONS}},
    )
    client = await Client.connect(address)
    return plain_worker(client, task_queue, workflows=[LangGraphRun, LangGraphFunctionalRun], plugins=[plugin])
