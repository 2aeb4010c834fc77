"""pydantic-ai with its Temporal capability: the agent loop is in the workflow, model and tool calls are activities.

`PydanticAIContinuedRun` also sets the capability's `continue_as_new` handler, which passes the whole conversation to
the next execution.
"""

from datetime import timedelta

from pydantic_ai import Agent, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, PydanticAIWorkflow, TemporalDurability
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker
from temporalio.workflow import ActivityConfig

from benchmarks.peers.worker import call_id, plain_worker
from benchmarks.workload import Work, padding, scripted_answer

_ACTIVITIES = ActivityConfig(start_to_close_timeout=timedelta(minutes=10))
_NO_LIMIT = UsageLimits(request_limit=None)


async def script(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """The workload's script as a model. It counts the tool results in its input."""
    done = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
    answer = scripted_answer(Work.parse(str(messages[0].parts[0].content)), done)
    if answer.tool is None:
        part: TextPart | ToolCallPart = TextPart(answer.text)
    else:
        part = ToolCallPart(answer.tool, answer.arguments, tool_call_id=call_id(done))
    # With a usage of its own, a response does not make `FunctionModel` estimate one from the whole conversation.
    return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=1, output_tokens=1))


async def pad(step: int, size: int) -> str:
    """Return so many bytes."""
    return padding(step, size)


def continue_as_new(ctx: RunContext[None]) -> None:
    [question] = [part.content for part in ctx.messages[0].parts]
    workflow.continue_as_new(args=[question, ctx.messages])


model = FunctionModel(script, model_name="script")
agent = Agent(model, name="bench", tools=[pad], capabilities=[TemporalDurability(activity_config=_ACTIVITIES)])
continued_agent = Agent(
    model,
    name="continued",
    tools=[pad],
    capabilities=[TemporalDurability(activity_config=_ACTIVITIES, continue_as_new=continue_as_new)],
)


@workflow.defn
class PydanticAIRun(PydanticAIWorkflow):
    __pydantic_ai_agents__ = [agent]

    @workflow.run
    async def run(self, question: str) -> str:
        return str((await agent.run(question, usage_limits=_NO_LIMIT)).output)


@workflow.defn
class PydanticAIContinuedRun(PydanticAIWorkflow):
    __pydantic_ai_agents__ = [continued_agent]

    @workflow.run
    async def run(self, question: str, messages: list[ModelMessage] | None = None) -> str:
        prompt = None if messages else question
        result = await continued_agent.run(prompt, message_history=messages, usage_limits=_NO_LIMIT)
        return str(result.output)


async def worker(address: str, task_queue: str) -> Worker:
    client = await Client.connect(address, plugins=[PydanticAIPlugin()])
    return plain_worker(client, task_queue, workflows=[PydanticAIRun, PydanticAIContinuedRun])
