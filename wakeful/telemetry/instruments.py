"""Every metric: its name, what it measures, and the attributes that divide it. docs/observability.md has the table."""

from dataclasses import dataclass
from typing import Literal

from wakeful.telemetry import names

AGENT, MODEL, PROVIDER, TOOL = names.AGENT, names.REQUEST_MODEL, names.PROVIDER, names.TOOL_NAME
ERROR = names.ERROR_TYPE
CACHE_RESULT = "wakeful.cache.result"
SIGNAL = "wakeful.signal"
REASON = "wakeful.reason"
TASK_QUEUE = "wakeful.task_queue"
ATTRIBUTES = (CACHE_RESULT, SIGNAL, REASON, TASK_QUEUE)
"""Those that only metrics have."""

OTHER = "other"
"""In place of a name that anyone can make up: each would be a time series."""

HIT, REBUILT = "hit", "rebuilt"
"""Values of `wakeful.cache.result`."""


@dataclass(frozen=True)
class Instrument:
    """One metric."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    unit: str
    description: str
    attributes: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


SHORT = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
LONG = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800)
TOKENS = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304)
COSTS = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10)

MODEL_CALL_DURATION = Instrument(
    "gen_ai.client.operation.duration",
    "histogram",
    "s",
    "One call of a model, also a failed one.",
    (names.OPERATION, PROVIDER, MODEL, ERROR),
    SHORT,
)
FIRST_CHUNK = Instrument(
    "gen_ai.client.operation.time_to_first_chunk",
    "histogram",
    "s",
    "From the request until the first part of a streamed answer.",
    (names.OPERATION, PROVIDER, MODEL),
    SHORT,
)
TOKEN_USAGE = Instrument(
    "gen_ai.client.token.usage",
    "histogram",
    "{token}",
    "Tokens of an answer, over all its attempts.",
    (names.OPERATION, PROVIDER, MODEL, AGENT, names.TOKEN_TYPE),
    TOKENS,
)
RUN_DURATION = Instrument(
    "gen_ai.invoke_agent.duration",
    "histogram",
    "s",
    "A run, from its first message to its end, with all its waiting.",
    (AGENT, names.OUTCOME, ERROR),
    LONG,
)
TOOL_DURATION = Instrument(
    "gen_ai.execute_tool.duration",
    "histogram",
    "s",
    "One execution of a tool by a worker.",
    (TOOL, names.TOOL_OUTCOME, ERROR),
    SHORT,
)
RUNS_STARTED = Instrument(
    "wakeful.runs.started", "counter", "{run}", "Runs that began, once their agent is found.", (AGENT,)
)
RUNS_ENDED = Instrument("wakeful.runs.ended", "counter", "{run}", "Runs that ended.", (AGENT, names.OUTCOME))
STEPS = Instrument("wakeful.steps", "counter", "{step}", "Steps that ended.", (AGENT,))
TOOL_CALLS = Instrument(
    "wakeful.tool.calls",
    "counter",
    "{call}",
    "Tool calls that finished, whatever executed them.",
    (TOOL, names.TOOL_OUTCOME),
)
SUSPENSIONS = Instrument(
    "wakeful.suspension.duration",
    "histogram",
    "s",
    "How long a call waited for its decision.",
    (TOOL, names.DECISION_ACTION),
    LONG,
)
CONTINUED = Instrument(
    "wakeful.continue_as_new", "counter", "{execution}", "Executions that continued as new.", (AGENT,)
)
REFUSED = Instrument(
    "wakeful.inputs.refused", "counter", "{signal}", "Signals that a thread refused, by their names.", (SIGNAL,)
)
UNDELIVERED = Instrument(
    "wakeful.messages.undelivered",
    "counter",
    "{message}",
    "Messages to other agents that could not be delivered.",
    (REASON,),
)
COST = Instrument(
    "wakeful.cost",
    "histogram",
    "{currency}",
    "The cost of an answer by the registry's prices; its sum is what was spent.",
    (AGENT, MODEL),
    COSTS,
)
RETRIES = Instrument(
    "wakeful.inference.retries",
    "counter",
    "{attempt}",
    "Failed calls of models that were tried again, with the same model or another one.",
    (PROVIDER, MODEL, ERROR),
)
BREAKER = Instrument(
    "wakeful.breaker.open",
    "gauge",
    "1",
    "1 while the circuit breaker of a model is open on this worker.",
    (PROVIDER, MODEL),
)
TRANSCRIPTS = Instrument(
    "wakeful.transcript_cache.reads",
    "counter",
    "{read}",
    "Conversations for a request: a `hit` in memory, or cold: `rebuilt` from history.",
    (CACHE_RESULT,),
)
REBUILD_DURATION = Instrument(
    "wakeful.transcript_cache.rebuild.duration", "histogram", "s", "Cold rebuilds of a conversation.", (), SHORT
)
ABANDONED = Instrument(
    "wakeful.abandoned_threads",
    "gauge",
    "{thread}",
    "Threads of sync tools, gates and hooks that have timed out or were cancelled, and still run.",
    (TASK_QUEUE,),
)
ACTIVE = Instrument(
    "wakeful.runs.active", "gauge", "{run}", "Runs under way in the namespace, on this task queue.", (TASK_QUEUE,)
)
WAITING = Instrument(
    "wakeful.runs.suspended",
    "gauge",
    "{run}",
    "Of those, runs that wait for a decision, a task or budget.",
    (TASK_QUEUE,),
)
OLDEST_DECISION = Instrument(
    "wakeful.decisions.oldest_age", "gauge", "s", "For how long the oldest pending decision waits.", (TASK_QUEUE,)
)

INSTRUMENTS = (
    MODEL_CALL_DURATION,
    FIRST_CHUNK,
    TOKEN_USAGE,
    RUN_DURATION,
    TOOL_DURATION,
    RUNS_STARTED,
    RUNS_ENDED,
    ACTIVE,
    WAITING,
    OLDEST_DECISION,
    STEPS,
    TOOL_CALLS,
    SUSPENSIONS,
    COST,
    RETRIES,
    BREAKER,
    TRANSCRIPTS,
    REBUILD_DURATION,
    CONTINUED,
    REFUSED,
    UNDELIVERED,
    ABANDONED,
)
