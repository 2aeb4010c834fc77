"""OpenAI Agents SDK with its Temporal plugin: the runner is in the workflow, model and tool calls are activities."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from agents import Agent, Model, ModelProvider, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.openai_agents.workflow import activity_as_tool
from temporalio.worker import Worker

from benchmarks.peers.worker import call_id, plain_worker
from benchmarks.workload import Work, padding, scripted_answer

_TIMEOUT = timedelta(minutes=10)


class Script(Model):
    """The workload's script as a model. It counts the tool results in its input."""

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        items = options["input"] if "input" in options else args[1]
        question = items if isinstance(items, str) else items[0]["content"]
        done = 0 if isinstance(items, str) else sum(item.get("type") == "function_call_output" for item in items)
        answer = scripted_answer(Work.parse(question), done)
        if answer.tool is None:
            text = ResponseOutputText(text=answer.text, annotations=[], type="output_text")
            output: Any = ResponseOutputMessage(
                id="msg", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            output = ResponseFunctionToolCall(
                call_id=call_id(done), name=answer.tool, arguments=json.dumps(answer.arguments), type="function_call"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_args: Any, **_options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("the benchmark does not stream")


class Scripts(ModelProvider):
    def get_model(self, model_name: str | None) -> Model:
        del model_name
        return Script()


@activity.defn
async def pad(step: int, size: int) -> str:
    """Return so many bytes."""
    return padding(step, size)


@workflow.defn
class OpenAIAgentsRun:
    @workflow.run
    async def run(self, question: str) -> str:
        agent = Agent(name="bench", model="script", tools=[activity_as_tool(pad, start_to_close_timeout=_TIMEOUT)])
        turns = Work.parse(question).steps + 1
        result = await Runner.run(agent, question, max_turns=turns, run_config=RunConfig(tracing_disabled=True))
        return str(result.final_output)


async def worker(address: str, task_queue: str) -> Worker:
    plugin = OpenAIAgentsPlugin(
        model_params=ModelActivityParameters(start_to_close_timeout=_TIMEOUT), model_provider=Scripts()
    )
    client = await Client.connect(address, plugins=[plugin])
    return plain_worker(client, task_queue, workflows=[OpenAIAgentsRun], activities=[pad])
