"""The agents of the shop, their rules and limits, and the registry that checks them against each other."""

from pathlib import Path

from examples.surface.audit import Audit, AuditSettings, NightShift
from examples.surface.models import MODELS, PRICES
from examples.surface.shop import GATES, LANGUAGE, LOOKUPS, SEEN, TOOLS, Shop, Ticket, open_shop
from wakeful import (
    A2aSource,
    Agent,
    AllowText,
    Behavior,
    BlockText,
    Budget,
    ConfigurationError,
    ConsecutiveErrors,
    ContentMatch,
    ContextPolicy,
    DeferredTools,
    DeferredToolsSettings,
    DeferRule,
    Endpoint,
    Guardrails,
    GuardrailsSettings,
    GuardRule,
    InstructionsContext,
    InvalidValue,
    LoopDetection,
    MaxRounds,
    McpServer,
    ModelSettings,
    PermissionPolicy,
    Priority,
    Registry,
    Reminder,
    ReminderCondition,
    ReminderMessage,
    ReminderOutput,
    ReminderRule,
    ReminderSettings,
    RemoteAgent,
    RetryPolicy,
    RewriteText,
    Rule,
    Secret,
    Skills,
    SkillsSettings,
    StateMerge,
    StateScope,
    StopOnTool,
    TextCheck,
    TextRuling,
    Timeout,
    TokenBudget,
    ToolMode,
)


def instructions(ctx: InstructionsContext[Shop]) -> str:
    """Answers customers."""
    return f"You work for {ctx.tenant or 'the shop'}. In stock: {', '.join(ctx.deps.stock)}."


def no_shouting(text: str) -> TextRuling | None:
    if not text.isupper():
        return None
    return BlockText("please do not shout") if len(text) > 200 else RewriteText(text.capitalize())


def staff(text: str) -> TextRuling | None:
    return AllowText() if text.startswith("staff:") else None


CHECKS: list[TextCheck] = [staff, no_shouting, GuardRule(pattern=r"\b\d{16}\b", verdict="rewrite")]

PERMISSIONS = PermissionPolicy(
    default_behavior="allow",
    rules=[Rule(tool="refund", behavior="ask"), Rule(tool="mcp__*", behavior=Behavior.ASK)],
)

AFTER_A_REFUND = ReminderRule(
    tool="refund",
    output=ReminderOutput(status="success", content=[ReminderCondition(path="refunded", op="=~", value="^[0-9]{3}")]),
    message=ReminderMessage(content="Mention the refund policy.", target="suffix_system"),
)

WAREHOUSE = McpServer(
    name="warehouse",
    command=["warehouse-mcp", "--read-only"],
    env={"TOKEN": Secret(env="WAREHOUSE_TOKEN")},
    permissions={"delete_*": "deny", "*": "ask"},
    effects={"list_*": "read_only"},
)

clerk = Agent(
    id="clerk",
    instructions=instructions,
    tools=TOOLS,
    gates=GATES,
    state=[LOOKUPS, SEEN],
    tool_mode="parallel",
    output=Ticket,
    permissions=PERMISSIONS,
    plugins=[Audit(), Guardrails(input=CHECKS), Reminder([AFTER_A_REFUND]), DeferredTools()],
    plugin_settings={
        "audit": AuditSettings(max_lookups=5),
        "guardrails": GuardrailsSettings(output=[GuardRule(pattern="password", verdict="block")]),
        "reminder": ReminderSettings(rules=[]),
        "deferred_tools": DeferredToolsSettings(rules=[DeferRule(tool="mcp__*", mode="deferred")]),
    },
    settings=ModelSettings(temperature=0.2, reasoning_effort="low"),
    retry=RetryPolicy(max_retries=3),
    budget=Budget(tokens=50_000, cost=2.0),
    priority=Priority(priority_key=2),
    context=ContextPolicy(autocompact_threshold=100_000),
    stop_conditions=[
        MaxRounds(rounds=8),
        Timeout(seconds=600),
        TokenBudget(max_total=80_000),
        ConsecutiveErrors(max=3),
        StopOnTool(tool_name="hang_up"),
        ContentMatch(pattern="(?i)goodbye"),
        LoopDetection(window=4),
    ],
    delegates=["courier"],
    handoffs=["night"],
    messages=["parent", "children"],
)
night = Agent(id="night", model="parrot", tools=["stock"], tool_mode=ToolMode.SEQUENTIAL, plugins=[NightShift()])
courier = RemoteAgent(id="courier", url="https://courier.example", token=Secret(file="/run/secrets/courier"))
florist = Agent(id="florist", endpoint=Endpoint(url="https://florist.example", idempotent=True))


def make_registry(*, sources: list[A2aSource] | None = None, skills: Path | None = None) -> Registry:
    """The whole shop; with skills from a directory, and with agents of other services, if there are any.

    Raises:
        ConfigurationError: lists all problems at once.
    """
    known = [clerk, night, courier, florist]
    if skills is not None:
        expert = Agent(
            id="expert",
            mcp=[WAREHOUSE],
            plugins=[Skills(skills)],
            plugin_settings={"skills": SkillsSettings(allow_scripts=False)},
        )
        known.append(expert)
    return Registry(
        agents=known,
        sources=sources or [],
        tools=TOOLS,
        models=MODELS,
        prices=PRICES,
        profile_keys=[LANGUAGE],
        lifespan=open_shop,
    )


def with_budget(agent: Agent, *, tokens: int, cost: float) -> Agent | None:
    """The agent with limits that someone has entered; None if they make no sense, and the reasons on the terminal."""
    try:
        return agent.model_copy(update={"budget": Budget(tokens=tokens, cost=cost)})
    except InvalidValue as invalid:
        print(*invalid.fields, sep="\n")
        return None


def partners() -> list[A2aSource]:
    return [A2aSource(name="partner", url="https://partner.example", token=Secret(env="PARTNER_TOKEN"))]


def problems_of(path: Path) -> list[str]:
    """What is wrong with a directory of skills; nothing, if a registry can be made of it."""
    try:
        make_registry(skills=path)
    except ConfigurationError as error:
        return list(error.problems)
    return []


def lasting() -> list[str]:
    """The state keys that last as long as a thread, and how they merge."""
    specs = [key.spec for key in (LOOKUPS, SEEN)]
    return [
        f"{spec.key} ({'appends' if spec.merge is StateMerge.APPEND else spec.merge})"
        for spec in specs
        if spec.scope is StateScope.THREAD
    ]
