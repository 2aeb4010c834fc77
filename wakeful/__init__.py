"""Wakeful: durable agents on Temporal.

The agent loop is a deterministic workflow, model and tool calls are activities, decisions are signals, and workflow
history is the checkpoint store. What users write and call is exported here; `docs/architecture.md` says who owns what.
"""

from wakeful.authoring.agent import Agent
from wakeful.authoring.gate import Gate, GateCall, gate
from wakeful.authoring.hook_contexts import (
    AfterInference,
    AfterToolExecute,
    BeforeInference,
    BeforeToolExecute,
    HookContext,
    RunEnd,
    StepEnd,
    StepStart,
    ToolGate,
)
from wakeful.authoring.plugin import Plugin
from wakeful.authoring.provider import Provider, StreamingProvider
from wakeful.authoring.scripted import ScriptedModel, call, say
from wakeful.authoring.state import State, StateKey
from wakeful.authoring.tool import Tool, ToolContext, tool
from wakeful.contract.agents import RetryPolicy, ToolMode
from wakeful.contract.budgets import Budget, Price
from wakeful.contract.context import ContextMessage, ContextTarget
from wakeful.contract.decisions import Decision, DecisionAction, ResumeMode
from wakeful.contract.errors import (
    CallerError,
    ConfigurationError,
    ConnectionFailed,
    DecisionRefused,
    NoAnswer,
    ProviderError,
    ProviderErrorKind,
    ThreadBusy,
    ThreadNotFound,
    ToolError,
    WakefulError,
)
from wakeful.contract.gates import Verdict
from wakeful.contract.inference import InferenceOverrides, ModelRequest, ModelResponse, ModelSettings
from wakeful.contract.messages import InputMessage, Message, Role, TextBlock, Visibility
from wakeful.contract.permissions import Behavior, PermissionPolicy, Rule
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import RunResult, RunStatus
from wakeful.contract.state import StateMerge, StateScope
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tools import FrontendTool, ToolDescriptor, ToolResult, ToolStatus
from wakeful.permissions.parsing import parse as parse_pattern
from wakeful.permissions.patterns import Pattern as ToolPattern
from wakeful.registry.registry import Registry, default_model

__all__ = [
    "AfterInference",
    "AfterToolExecute",
    "Agent",
    "BeforeInference",
    "BeforeToolExecute",
    "Behavior",
    "Budget",
    "CallerError",
    "ConfigurationError",
    "ConnectionFailed",
    "ContextMessage",
    "ContextTarget",
    "Decision",
    "DecisionAction",
    "DecisionRefused",
    "FrontendTool",
    "Gate",
    "GateCall",
    "HookContext",
    "InferenceOverrides",
    "InputMessage",
    "Message",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "NoAnswer",
    "PermissionPolicy",
    "Plugin",
    "Price",
    "Provider",
    "ProviderError",
    "ProviderErrorKind",
    "Registry",
    "ResumeMode",
    "RetryPolicy",
    "Role",
    "Rule",
    "RunEnd",
    "RunRequest",
    "RunResult",
    "RunStatus",
    "ScriptedModel",
    "State",
    "StateKey",
    "StateMerge",
    "StateScope",
    "StepEnd",
    "StepStart",
    "StreamingProvider",
    "TaskStatus",
    "TextBlock",
    "ThreadBusy",
    "ThreadNotFound",
    "Tool",
    "ToolContext",
    "ToolDescriptor",
    "ToolError",
    "ToolGate",
    "ToolMode",
    "ToolPattern",
    "ToolResult",
    "ToolStatus",
    "Verdict",
    "Visibility",
    "WakefulError",
    "call",
    "default_model",
    "gate",
    "parse_pattern",
    "say",
    "tool",
]
