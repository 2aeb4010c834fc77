"""Remind the model of something after certain tool calls."""

from wakeful.plugins.reminder.plugin import Reminder
from wakeful.plugins.reminder.rules import Field, Output, ReminderMessage, ReminderRule, ReminderSettings

__all__ = ["Field", "Output", "Reminder", "ReminderMessage", "ReminderRule", "ReminderSettings"]
