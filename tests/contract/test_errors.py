"""The exceptions that users can catch: what they say, and who is at fault."""

import pickle

import pytest

from wakeful.contract.errors import (
    HOW_TO_DECODE,
    AlreadyDecided,
    ArchiveMissing,
    CallerError,
    CannotDecode,
    ChangeRefused,
    ConfigurationError,
    ConnectionFailed,
    DecisionRefused,
    DiscoveryFailed,
    DoesNotReplay,
    IllegalTransition,
    InternalError,
    InvalidValue,
    MessageRefused,
    NoAnswer,
    NotAnswered,
    NotStarted,
    OtherTenant,
    ProviderError,
    ProviderErrorKind,
    RetryLater,
    ThreadBusy,
    ThreadExists,
    ThreadExpired,
    ThreadNotFound,
    ToolError,
    ToolErrorKind,
    WakefulError,
)


def tree(kind: type[BaseException]) -> dict[str, object]:
    ours = [child for child in kind.__subclasses__() if child.__module__ == WakefulError.__module__]
    return {child.__name__: tree(child) for child in ours}


def test_the_tree_is_split_by_who_is_at_fault() -> None:
    assert {"WakefulError": tree(WakefulError)} == {
        "WakefulError": {
            "CallerError": {
                "ChangeRefused": {},
                "DecisionRefused": {"AlreadyDecided": {}},
                "MessageRefused": {"OtherTenant": {}},
                "ThreadBusy": {},
                "ThreadExists": {},
                "ThreadExpired": {},
                "ThreadNotFound": {},
                "InvalidValue": {},
            },
            "NotAnswered": {
                "RunFailed": {},
                "RunCancelled": {},
                "RunBlocked": {},
                "RunStopped": {},
                "OutputMismatch": {},
            },
            "ConfigurationError": {"InvalidValue": {}},
            "DiscoveryFailed": {},
            "ConnectionFailed": {},
            "NoAnswer": {"NotStarted": {}},
            "ArchiveMissing": {},
            "CannotDecode": {},
            "DoesNotReplay": {"ReplayTooSlow": {}},
            "NewerRelease": {},
            "WorkerExhausted": {},
            "ProviderError": {},
            "ToolError": {"RetryLater": {}},
            "InternalError": {"IllegalTransition": {}},
        }
    }


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CallerError("no"), "no"),
        (
            OtherTenant("t1", "acme"),
            "thread 't1' rejected the message: the thread belongs to another tenant than 'acme', which the message "
            "is from",
        ),
        (OtherTenant("t1", None), "thread 't1' rejected the message: the thread belongs to a tenant: name it"),
        (
            CannotDecode("the input of thread 't1'", "unknown encoding"),
            f"the input of thread 't1' cannot be decoded here: unknown encoding. {HOW_TO_DECODE}",
        ),
        (ChangeRefused("t1", "too late"), "thread 't1' rejected the change: too late"),
        (DecisionRefused("t1", "too late"), "thread 't1' rejected the decision: too late"),
        (MessageRefused("t1", "busy"), "thread 't1' rejected the message: busy"),
        (NoAnswer("silence"), "silence"),
        (
            NotStarted("t1", "r1", is_taken=True),
            "the run on thread 't1' has not started: execution 'r1' has not restored the thread yet, or rejected the "
            "request that started it",
        ),
        (
            NotStarted("t1", "r1"),
            "the run on thread 't1' has not started: no worker has completed a workflow task of execution 'r1'; start "
            "a worker on its task queue",
        ),
        (
            DoesNotReplay("t1", "r1", event_id=5, reason="no such activity"),
            "execution 'r1' of thread 't1' does not replay on the code installed here, at event 5: no such activity. "
            "Query a worker of the thread instead, or read it with the version and the payload codec of its workers.",
        ),
        (
            ThreadBusy("t1"),
            "thread already has an active run: t1; send() gives it another message, and result() waits for its end",
        ),
        (
            ThreadExists("t1"),
            "thread 't1' has a conversation already: use send() to continue it, or start it over with again=True",
        ),
        (
            ThreadExpired("t1"),
            "thread 't1' was closed, and the server has deleted it because its retention has ended: start it over with "
            "start(..., again=True), or use another id",
        ),
        (
            ArchiveMissing("t1", "t1/archive/1-d1"),
            "a part of thread 't1' is missing: workflow 't1/archive/1-d1', which archives it, was deleted",
        ),
        (
            AlreadyDecided("t1", "call '1-1' was already denied", action="cancel", actor="ann", at=7),
            "thread 't1' rejected the decision: call '1-1' was already denied",
        ),
        (ThreadNotFound("t1"), "no thread 't1' in this namespace"),
        (ConfigurationError(["tool 'a' twice", "no model"]), "tool 'a' twice\nno model"),
        (ConnectionFailed("refused"), "refused"),
        (ProviderError(ProviderErrorKind.TIMEOUT, "60 s without a token"), "60 s without a token"),
        (ToolError("no such city"), "Execution failed: no such city"),
        (InternalError("lost"), "lost"),
        (IllegalTransition("from a to b"), "from a to b"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, WakefulError) else "",
)
def test_an_error_says_what_is_wrong_and_which_object_it_concerns(error: WakefulError, text: str) -> None:
    assert str(error) == text


def test_an_error_has_the_fields_that_callers_act_on() -> None:
    overloaded = ProviderError(ProviderErrorKind.OVERLOADED, "busy", retry_after=2.5)
    refused = DecisionRefused("t1", "too late")
    assert (ThreadBusy("t1").thread_id, ThreadNotFound("t2").thread_id) == ("t1", "t2")
    assert (refused.thread_id, refused.reason) == ("t1", "too late")
    assert ConfigurationError(["a", "b"]).problems == ("a", "b")
    assert (overloaded.kind, overloaded.retry_after) == (ProviderErrorKind.OVERLOADED, 2.5)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ToolErrorKind.INVALID_ARGUMENTS, "Invalid arguments: x"),
        (ToolErrorKind.EXECUTION_FAILED, "Execution failed: x"),
        (ToolErrorKind.DENIED, "Denied: x"),
        (ToolErrorKind.NOT_FOUND, "Not found: x"),
        (ToolErrorKind.INTERNAL, "Internal error: x"),
    ],
)
def test_a_tool_error_reads_as_its_kind_and_its_message(kind: ToolErrorKind, text: str) -> None:
    """B-205"""
    assert str(ToolError("x", kind=kind)) == text


@pytest.mark.parametrize(
    "error",
    [
        InvalidValue("Agent 'buyer'", ["'id' is missing"]),
        AlreadyDecided("t1", "it was approved", action="resume", actor="ann", at=1),
        ConfigurationError(["one", "two"]),
        ProviderError("timeout", "it took too long", retry_after=2),
        RetryLater("it is locked", after=3),
        ThreadBusy("t1"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_reaches_another_process_as_it_is(error: WakefulError) -> None:
    """A pool of processes pickles what its work raises; one that could not be read would break the whole pool."""
    arrived = pickle.loads(pickle.dumps(error))
    assert (type(arrived), str(arrived), vars(arrived)) == (type(error), str(error), vars(error))


def test_only_transient_provider_errors_are_retried() -> None:
    assert {kind.value for kind in ProviderErrorKind if kind.transient} == {
        *("provider", "rate_limited", "overloaded", "timeout", "stream_interrupted")
    }
    assert {kind.value for kind in ProviderErrorKind if not kind.transient} == {
        *("context_overflow", "invalid_request", "unauthorized", "model_not_found", "content_filtered"),
        "unexpected_call",
    }


def test_a_failed_discovery_names_the_sources_and_why() -> None:
    """B-627"""
    failed = DiscoveryFailed({"partner": "HTTP 503", "cloud": "no answer"})
    assert str(failed) == "remote agent discovery failed: source 'partner': HTTP 503; source 'cloud': no answer"
    assert failed.failures == {"partner": "HTTP 503", "cloud": "no answer"}


def test_a_message_without_an_answer_is_named_with_the_reason() -> None:
    error = NotAnswered("t1", "m1", "its run was cancelled")
    assert str(error) == "message 'm1' has no answer on thread 't1': its run was cancelled"
    assert (error.thread_id, error.message_id, error.result) == ("t1", "m1", None)
