"""Add a context message to the next request after a tool call that a rule matches."""

from collections.abc import Sequence

from wakeful import AfterToolExecute, Plugin
from wakeful.plugins.reminder.rules import ReminderRule, ReminderSettings


class Reminder(Plugin[ReminderSettings]):
    """Reminders after tool calls. Rules in an agent's settings come after those of the constructor."""

    id = "reminder"

    def __init__(self, rules: Sequence[ReminderRule] = ()) -> None:
        self.rules = tuple(rules)

    def after_tool_execute(self, ctx: AfterToolExecute[ReminderSettings]) -> None:
        for number, rule in enumerate((*self.rules, *ctx.settings.rules), start=1):
            if rule.matches(ctx.call.name, ctx.call.arguments, ctx.result):
                ctx.add_context(
                    f"reminder:{rule.name or number}",
                    rule.message.content,
                    target=rule.message.target,
                    cooldown_turns=rule.message.cooldown_turns,
                )
