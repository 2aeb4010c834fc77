"""A plugin with a hook for every phase: it measures, redacts, and stops what takes too long."""

from pydantic import BaseModel

from examples.surface.shop import LOOKUPS, Shop
from wakeful import (
    AfterInference,
    AfterToolExecute,
    BeforeInference,
    BeforeToolExecute,
    ContextMessage,
    ContextTarget,
    HookContext,
    InferenceOverrides,
    NoSettings,
    Plugin,
    Rule,
    RunEnd,
    RunMode,
    StepEnd,
    StepStart,
    TextBlock,
    ToolDescriptor,
    ToolGate,
    ToolPattern,
    Visibility,
    parse_pattern,
)


class AuditSettings(BaseModel):
    max_lookups: int = 20
    closed: bool = False


WRITES: ToolPattern = parse_pattern('refund(amount =~ "^[0-9]{4,}$")')


class Audit(Plugin[AuditSettings, Shop]):
    id = "audit"
    state = (LOOKUPS,)
    on_error = "fail"

    def run_start(self, ctx: HookContext[AuditSettings, Shop]) -> None:
        if ctx.settings.closed:
            ctx.finish("The shop is closed.")
        ctx.emit("opened", {"mode": ctx.run_mode.value, "items": len(ctx.deps.stock)})

    def step_start(self, ctx: StepStart[AuditSettings, Shop]) -> None:
        ctx.add_context("audit.size", f"{len(ctx.messages)} messages so far.", target="suffix_system")

    def before_inference(self, ctx: BeforeInference[AuditSettings, Shop]) -> None:
        shown = [message for message in ctx.messages if message.visibility is Visibility.ALL]
        ctx.rewrite_messages(shown)
        ctx.override(InferenceOverrides(temperature=0, fallback_upstream_models=["small", "tiny"]))

    def after_inference(self, ctx: AfterInference[AuditSettings, Shop]) -> None:
        if "secret" in ctx.response.text:
            ctx.rewrite(ctx.response.text.replace("secret", "[redacted]"))

    def tool_gate(self, ctx: ToolGate[AuditSettings, Shop]) -> None:
        if WRITES.matches(ctx.tool_name, ctx.arguments) and not ctx.approved:
            ctx.suspend("A large refund. Is it correct?", resume_mode="replay_tool_call")

    def before_tool_execute(self, ctx: BeforeToolExecute[AuditSettings, Shop]) -> None:
        if ctx.run_mode is RunMode.SCHEDULED and may_write(ctx.tool):
            ctx.set_result({"skipped": "it is night"})

    def after_tool_execute(self, ctx: AfterToolExecute[AuditSettings, Shop]) -> None:
        ctx.state.add(LOOKUPS, 1)

    def step_end(self, ctx: StepEnd[AuditSettings, Shop]) -> None:
        if ctx.state.get(LOOKUPS) > ctx.settings.max_lookups:
            ctx.stop("too_many_lookups", ctx.response)

    def run_end(self, ctx: RunEnd[AuditSettings, Shop]) -> None:
        ctx.emit("closed", ctx.result.status_reason)


def may_write(tool: ToolDescriptor | None) -> bool:
    return tool is None or not tool.effects.may_repeat


class NightShift(Plugin[NoSettings, Shop]):
    """Without settings: at night, every tool call needs a person."""

    id = "night_shift"

    def on_activate(self, ctx: HookContext[NoSettings, Shop]) -> None:
        ctx.add_permissions(Rule(tool="*", behavior="ask"))
        ctx.add_context(
            ContextMessage(
                key="night",
                role="system",
                content=[TextBlock(text="It is night: keep it short.")],
                target=ContextTarget.SESSION,
                visibility="internal",
                persistent=True,
            )
        )
