"""What is public: the names that `wakeful`, `wakeful.testing`, `wakeful.workflow` and `wakeful.mcp` export.

To add or remove one is a decision.
"""

import ast
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client as TemporalClient
from temporalio.worker import Worker

import wakeful
import wakeful.a2a
import wakeful.mcp
import wakeful.testing
import wakeful.workflow
from tests.support.processes import ROOT
from tests.support.sandboxed.imported_first import ImportedFirst
from tests.support.sandboxed.passed_through import PassedThrough
from tests.support.sandboxed.plain_import import PlainImport
from wakeful import Client

EXPORTS = [
    "A2aSource",
    "Adapter",
    "AfterInference",
    "AfterToolExecute",
    "Agent",
    "AllowText",
    "AlreadyDecided",
    "Answer",
    "AnthropicMessages",
    "AudioBlock",
    "AzureOpenAIChat",
    "AzureOpenAIResponses",
    "Base64Source",
    "BeforeInference",
    "BeforeToolExecute",
    "Behavior",
    "BlockText",
    "Budget",
    "CallArgumentsPart",
    "CallEndPart",
    "CallStartPart",
    "CallerError",
    "CannotDecode",
    "ChangeRefused",
    "Changed",
    "Client",
    "ConfigurationError",
    "ConnectionFailed",
    "ConsecutiveErrors",
    "ContentMatch",
    "ContextMessage",
    "ContextPolicy",
    "ContextTarget",
    "Decision",
    "DecisionAction",
    "DecisionNeeded",
    "DecisionRecord",
    "DecisionRefused",
    "DeferRule",
    "DeferredTools",
    "DeferredToolsSettings",
    "DeleteReceipt",
    "Diagnosis",
    "DiscoveryFailed",
    "DocumentBlock",
    "Endpoint",
    "EventRecord",
    "ExpiryAction",
    "FileRef",
    "FrontendTool",
    "Gate",
    "GateCall",
    "GuardRule",
    "Guardrails",
    "GuardrailsSettings",
    "Handoff",
    "HistoryBudget",
    "HookContext",
    "ImageBlock",
    "InferenceComplete",
    "InferenceOverrides",
    "InputMessage",
    "InstructionsContext",
    "InvalidValue",
    "LogFields",
    "LoopDetection",
    "MaxRounds",
    "McpServer",
    "Message",
    "MessageEdited",
    "MessageReceived",
    "MessageRefused",
    "MessagesRead",
    "MessagesWithdrawn",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "NoAnswer",
    "NoSettings",
    "NotAnswered",
    "OnBusy",
    "OpenAIChat",
    "OpenAIResponses",
    "OtherTenant",
    "OutputMismatch",
    "OwnedThreads",
    "PendingDecision",
    "PermissionPolicy",
    "PermissionsView",
    "Plugin",
    "PluginEvent",
    "PostgresProfileStore",
    "Price",
    "Priority",
    "ProfileConflict",
    "ProfileEntry",
    "ProfileKey",
    "ProfileKeyNotFound",
    "ProfileStore",
    "ProfileStoreFailed",
    "ProfileUnreadable",
    "Profiles",
    "Provider",
    "ProviderError",
    "ProviderErrorKind",
    "PydanticAIModel",
    "QueuedMessage",
    "ReasoningDelta",
    "ReasoningPart",
    "Registry",
    "Reminder",
    "ReminderCondition",
    "ReminderMessage",
    "ReminderOutput",
    "ReminderRule",
    "ReminderSettings",
    "RemoteAgent",
    "ResumeMode",
    "RetryLater",
    "RetryPolicy",
    "RewriteText",
    "Role",
    "Rule",
    "RuleScope",
    "RulesRevoked",
    "RunBlocked",
    "RunCancelled",
    "RunEnd",
    "RunFailed",
    "RunFinish",
    "RunIdentity",
    "RunMode",
    "RunRequest",
    "RunResult",
    "RunStart",
    "RunStatus",
    "RunStopped",
    "ScopedRule",
    "ScriptedModel",
    "Secret",
    "Skills",
    "SkillsSettings",
    "SqliteProfileStore",
    "StartPart",
    "State",
    "StateKey",
    "StateMerge",
    "StateScope",
    "StatusView",
    "StepEnd",
    "StepStart",
    "StopOnTool",
    "StopPart",
    "StopReason",
    "StreamPart",
    "StreamReset",
    "StreamingProvider",
    "TaskStatus",
    "TextBlock",
    "TextCheck",
    "TextDelta",
    "TextPart",
    "TextRuling",
    "ThreadBusy",
    "ThreadExists",
    "ThreadExpired",
    "ThreadMode",
    "ThreadNotFound",
    "ThreadRun",
    "ThreadSummary",
    "Timeout",
    "TokenBudget",
    "Tool",
    "ToolCall",
    "ToolCallDecided",
    "ToolCallDone",
    "ToolCallReady",
    "ToolCallResume",
    "ToolContext",
    "ToolDescriptor",
    "ToolError",
    "ToolGate",
    "ToolKind",
    "ToolMode",
    "ToolPattern",
    "ToolResult",
    "ToolStatus",
    "TreeNode",
    "UrlSource",
    "Usage",
    "UsagePart",
    "Verdict",
    "VideoBlock",
    "Visibility",
    "WakefulError",
    "WakefulPlugin",
    "WorkerExhausted",
    "WorkerSettings",
    "agent_owner",
    "attachment",
    "call",
    "connect",
    "default_model",
    "gate",
    "parse_pattern",
    "running_worker",
    "say",
    "thread_owner",
    "tool",
]
TESTING = [
    "NoDecision",
    "RecordedModel",
    "RecordingToolContext",
    "ScriptedModel",
    "SuspendCall",
    "Turn",
    "UnexpectedModelCall",
    "WakefulRuntime",
    "call",
    "embedded_server",
    "fresh_namespace",
    "make_gate_call",
    "make_identity",
    "make_tool_context",
    "running_worker",
    "runtime",
    "say",
    "skip_time",
    "wait_for_decision",
]
A2A = ["TOKEN_VARIABLE", "app"]
MCP = ["app", "serve_stdio"]
WORKFLOW = ["AgentCancelled", "AgentFailed", "AgentHandle", "AgentOptions", "AgentTimedOut", "run_agent", "start_agent"]


SOURCE = ast.parse(Path(wakeful.__file__).read_text())


def imports(source: str) -> Iterator[tuple[str, str | None]]:
    """Every module of ours that the code imports, with the imported name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0].startswith("wakeful"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0].startswith("wakeful"):
            yield from ((node.module or "", alias.name) for alias in node.names)


def documented_code() -> Iterator[tuple[str, str]]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL), start=1):
            yield f"{page.name}, block {number}", block
    for file in sorted((ROOT / "examples").rglob("*.py")):
        yield str(file.relative_to(ROOT)), file.read_text()


def test_the_exported_names_are_pinned() -> None:
    assert wakeful.__all__ == sorted(wakeful.__all__) == EXPORTS
    assert wakeful.testing.__all__ == sorted(wakeful.testing.__all__) == TESTING
    assert wakeful.workflow.__all__ == sorted(wakeful.workflow.__all__) == WORKFLOW
    assert wakeful.a2a.__all__ == sorted(wakeful.a2a.__all__) == A2A
    assert wakeful.mcp.__all__ == sorted(wakeful.mcp.__all__) == MCP


@pytest.mark.parametrize("name", EXPORTS)
def test_every_exported_name_resolves(name: str) -> None:
    value = getattr(wakeful, name)
    assert not (inspect.isclass(value) or inspect.isfunction(value)) or value.__name__ == name


def test_dir_lists_every_exported_name() -> None:
    assert set(EXPORTS) <= set(dir(wakeful))


def test_a_name_that_is_not_exported_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'wakeful' has no attribute 'Agnet'"):
        wakeful.Agnet  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_what_is_imported_at_run_time() -> None:
    (block,) = (node for node in SOURCE.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imported = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == wakeful._MODULES


def test_no_exported_name_is_also_a_module() -> None:
    assert {module.name for module in pkgutil.iter_modules(wakeful.__path__)} & set(EXPORTS) == set()


def test_importing_wakeful_imports_nothing_else() -> None:
    code = "import sys, wakeful; dir(wakeful); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    packages = ("wakeful", "wakeful_activities", "wakeful_workflows", "temporalio", "pydantic", "httpx")
    assert [name for name in loaded if name.split(".")[0] in packages] == ["wakeful"]


async def test_workflows_of_users_can_import_wakeful_in_the_sandbox(
    temporal: TemporalClient, client: Client, thread_id: str
) -> None:
    """With and without pass-through; names resolve to the same classes, and the host's modules stay as they are."""
    workflows = [PassedThrough, PlainImport, ImportedFirst]
    contract = sys.modules["wakeful.contract"]
    async with Worker(temporal, task_queue=thread_id, workflows=workflows):
        for workflow in workflows:
            id = f"{thread_id}-{workflow.__name__}"
            assert (
                await temporal.execute_workflow(workflow.__name__, "tester", id=id, task_queue=thread_id) == "True True"
            )
    assert wakeful.contract is contract
    assert wakeful.RunRequest is sys.modules["wakeful.contract.requests"].RunRequest


@pytest.mark.parametrize("code", [pytest.param(code, id=where) for where, code in documented_code()])
def test_documented_code_imports_only_what_is_public(code: str) -> None:
    exports = {
        "wakeful": EXPORTS,
        "wakeful.testing": TESTING,
        "wakeful.workflow": WORKFLOW,
        "wakeful.a2a": A2A,
        "wakeful.mcp": MCP,
    }
    others = [(module, name) for module, name in imports(code) if name not in exports.get(module, [])]
    assert others == []


def test_built_in_plugins_are_written_on_what_is_exported() -> None:
    """So that a plugin of yours can do everything that they do."""
    for file in sorted((ROOT / "wakeful/plugins").rglob("*.py")):
        own = f"wakeful.plugins.{file.relative_to(ROOT / 'wakeful/plugins').parts[0]}."
        shared = "wakeful.plugins.deferred_tools.plugin"
        for module, name in imports(file.read_text()):
            is_exported = module == "wakeful" and name in EXPORTS
            assert is_exported or module.startswith(own) or module == shared, f"{file}: {module}"
