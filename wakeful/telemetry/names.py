"""Every name of a span, of an attribute and of a span event. Metrics are in `instruments`, which uses these attributes.

`gen_ai.*` and `error.type` are OpenTelemetry's GenAI conventions, written down here: the constants of its package are
deprecated. `wakeful.*` is ours. docs/observability.md says what each means, and a test keeps that table complete.
"""

SCOPE = "wakeful"
"""The instrumentation scope of spans and metrics."""

EXTERN = "wakeful_telemetry"
"""The SDK's extern function by which a workflow finds its telemetry."""

INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
"""The first words of these spans, and their operations; then come the agent, the model, the tool."""

SPAN_STEP = "step"
SPAN_ATTEMPT = "attempt"
SPAN_DECISION = "await_decision"
SPAN_TASKS = "await_tasks"
SPAN_BUDGET = "await_budget"
SPAN_START = "start"
SPAN_SEND = "send"
SPAN_DECIDE = "decide"
SPAN_FORK = "fork"

SPAN_NAMES = (
    INVOKE_AGENT,
    SPAN_STEP,
    CHAT,
    SPAN_ATTEMPT,
    EXECUTE_TOOL,
    SPAN_DECISION,
    SPAN_TASKS,
    SPAN_BUDGET,
    SPAN_START,
    SPAN_SEND,
    SPAN_DECIDE,
    SPAN_FORK,
)

EVENT_HANDOFF = "wakeful.handoff"
EVENT_NAMES = (EVENT_HANDOFF,)

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
REQUEST_TOP_P = "gen_ai.request.top_p"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"

SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
CONTENT = (SYSTEM_INSTRUCTIONS, INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_ARGUMENTS, TOOL_RESULT)
"""Recorded only if `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for it."""

RUN_ID = "wakeful.run.id"
PART = "wakeful.part"
CONTINUED = "wakeful.continued_as_new"
OUTCOME = "wakeful.run.outcome"
REASON = "wakeful.run.reason"
RUN_STEPS = "wakeful.run.steps"
RUN_DURATION = "wakeful.run.duration"
RUN_COST = "wakeful.run.cost"
TENANT = "wakeful.tenant"
PARENT_THREAD = "wakeful.parent.thread.id"
PARENT_CALL = "wakeful.parent.call.id"
STEP = "wakeful.step"
DISCARDED = "wakeful.step.discarded"
COST = "wakeful.cost"
ATTEMPT = "wakeful.attempt"
ATTEMPT_PROVIDER = "wakeful.attempt.provider"
ATTEMPT_MODEL = "wakeful.attempt.model"
ATTEMPT_TIME_TO_FIRST_CHUNK = "wakeful.attempt.time_to_first_chunk"
RETRIES = "wakeful.retries"
FALLBACK = "wakeful.fallback"
RECOVERY = "wakeful.recovery"
TOOL_OUTCOME = "wakeful.tool.outcome"
TOOL_RESUMED = "wakeful.tool.resumed"
DECISION_ACTION = "wakeful.decision.action"
SUSPENSION_DURATION = "wakeful.suspension.duration"
BUDGET_FIELD = "wakeful.budget.field"
HANDOFF_FROM = "wakeful.handoff.from"
HANDOFF_TO = "wakeful.handoff.to"
LINK = "wakeful.link"

BAGGAGE_ORIGIN = "wakeful.origin"
"""The baggage in which the start of a fork names the span that it continues from; the fork passes it on to nothing."""

FUNCTION = "function"
"""The value of `gen_ai.tool.type`: Wakeful or its worker executes the call, and not the provider."""

SUCCEEDED = "succeeded"
FAILED = "failed"
SUSPENDED = "suspended"
CANCELLED = "cancelled"
"""Values of `wakeful.tool.outcome`."""

EXPIRED = "expired"
"""A value of `wakeful.decision.action`, beside `resume` and `cancel`, which decide, and `cancelled`, with the run."""

LINK_SENDER = "sender"
LINK_DECIDER = "decider"
LINK_ORIGIN = "origin"
"""Values of `wakeful.link`: who sent a message, who decided, and the run that a fork continues."""
