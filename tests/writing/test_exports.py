"""What is public is what `wakeful` exports; adding or removing a name is a decision."""

import wakeful


def test_the_exports_are_sorted_and_there() -> None:
    assert sorted(wakeful.__all__) == [
        "Agent",
        "CallerError",
        "ConfigurationError",
        "ConnectionFailed",
        "Decision",
        "DecisionAction",
        "FrontendTool",
        "InferenceOverrides",
        "InputMessage",
        "Message",
        "ModelRequest",
        "ModelResponse",
        "ModelSettings",
        "Provider",
        "ProviderError",
        "ProviderErrorKind",
        "Registry",
        "ResumeMode",
        "RetryPolicy",
        "RunRequest",
        "RunResult",
        "RunStatus",
        "ScriptedModel",
        "StreamingProvider",
        "ThreadBusy",
        "ThreadNotFound",
        "Tool",
        "ToolContext",
        "ToolError",
        "ToolMode",
        "ToolResult",
        "WakefulError",
        "call",
        "default_model",
        "say",
        "tool",
    ]
    assert [name for name in wakeful.__all__ if not hasattr(wakeful, name)] == []
