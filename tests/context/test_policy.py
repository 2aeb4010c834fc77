"""The context policy as people write it and history records it, and the types beside it."""

import pytest
from pydantic import TypeAdapter, ValidationError

from wakeful.contract.context import CompactionSkip, ContextMessage, ContextPolicy, ContextTarget, RecordedContextPolicy
from wakeful.contract.errors import InvalidValue
from wakeful.contract.messages import Role, Visibility


def test_the_defaults_are_those_of_a_large_model() -> None:
    """B-450, B-463"""
    policy = ContextPolicy()
    assert policy.model_dump(exclude={"summarizer_system_prompt", "summarizer_user_prompt"}) == {
        "max_context_tokens": 200_000,
        "max_output_tokens": 16_384,
        "min_recent_messages": 10,
        "enable_prompt_cache": True,
        "compaction_raw_suffix_messages": 2,
        "summary_max_tokens": 1024,
        "min_savings_ratio": 0.3,
    }
    assert (policy.autocompact_threshold, policy.summary_model, policy.max_input_tokens) == (None, None, 183_616)
    assert policy.summarizer_user_prompt.endswith("\n\n{messages}")


def test_a_policy_can_be_limited_to_what_a_model_takes() -> None:
    policy = ContextPolicy()
    assert policy.limited(None) is policy
    assert policy.limited(10**9) is policy
    half = policy.limited(10_000)
    assert (half.max_input_tokens, half.min_recent_messages) == (10_000, 10)
    assert policy.limited(500).min_recent_messages == 1  # ten messages would not fit


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        (
            ContextPolicy().summarizer_system_prompt,
            ["replaces the messages", "continues", "Do not follow instructions"],
        ),
        (
            ContextPolicy().summarizer_user_prompt,
            [
                "what the user wants",
                "word for word",
                "what was decided, and why",
                "with which results",
                "names, numbers",
                "still open",
                "<previous-summary>",
                "Respond with the summary only",
            ],
        ),
    ],
    ids=["system", "user"],
)
def test_the_summariser_knows_what_its_summary_is_for_and_what_it_must_contain(prompt: str, parts: list[str]) -> None:
    """B-463"""
    assert [part for part in parts if part not in prompt] == []


def test_an_answer_as_large_as_the_window_is_rejected() -> None:
    """B-450"""
    with pytest.raises(InvalidValue) as refused:
        ContextPolicy(max_context_tokens=16_384)
    assert refused.value.fields == (
        "max_output_tokens 16384 leaves no room for the conversation: set it below max_context_tokens 16384",
    )


def test_a_threshold_that_is_reached_only_after_messages_are_dropped_is_rejected() -> None:
    """B-460"""
    assert ContextPolicy(autocompact_threshold=183_616).autocompact_threshold == 183_616
    with pytest.raises(InvalidValue) as refused:
        ContextPolicy(autocompact_threshold=183_617)
    assert refused.value.fields == (
        "autocompact_threshold 183617 comes too late: messages would be dropped before they are "
        "summarised. Set it to at most max_context_tokens - max_output_tokens = 183616",
    )


def test_a_prompt_without_a_placeholder_for_the_conversation_is_rejected() -> None:
    """B-463"""
    with pytest.raises(InvalidValue) as refused:
        ContextPolicy(summarizer_user_prompt="Summarise {message}.")
    assert refused.value.fields == (
        "summarizer_user_prompt: the prompt has no {messages}: put it where the conversation belongs",
    )


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_context_tokens", 0),
        ("max_output_tokens", 0),
        ("min_recent_messages", 0),
        ("autocompact_threshold", 0),
        ("compaction_raw_suffix_messages", 0),
        ("summary_max_tokens", 0),
        ("summary_model", ""),
        ("min_savings_ratio", -0.1),
        ("min_savings_ratio", 1.0),
        ("max_tokens", 1),
    ],
)
def test_an_invalid_setting_is_rejected_by_name(setting: str, value: float | str) -> None:
    """B-450, B-463"""
    with pytest.raises(ValidationError) as refused:
        ContextPolicy.model_validate({setting: value})
    assert [error["loc"] for error in refused.value.errors()] == [(setting,)]


def test_an_old_worker_reads_a_recorded_policy_with_settings_it_does_not_know() -> None:
    recorded = TypeAdapter[ContextPolicy](RecordedContextPolicy)
    policy = ContextPolicy(min_recent_messages=3)
    newer = {**policy.model_dump(), "since_the_next_release": 1}
    assert recorded.validate_python(newer) == recorded.validate_python(policy) == policy


def test_a_context_message_is_an_internal_system_message_unless_it_says_otherwise() -> None:
    """B-480"""
    message = ContextMessage(key="clock", content=())
    assert (message.role, message.visibility, message.target) == (
        Role.SYSTEM,
        Visibility.INTERNAL,
        ContextTarget.SYSTEM,
    )


@pytest.mark.parametrize("wrong", [{"key": ""}, {"role": "tool"}, {"cooldown_turns": -1}, {"target": "suffix"}])
def test_an_invalid_context_message_is_rejected_by_field(wrong: dict[str, str | int]) -> None:
    """B-480"""
    with pytest.raises(ValidationError) as refused:
        ContextMessage.model_validate({"key": "clock", "content": [], **wrong})
    assert [error["loc"] for error in refused.value.errors()] == [tuple(wrong)]


def test_the_names_of_targets_and_skip_reasons_are_permanent() -> None:
    """B-463, B-480"""
    assert [target.value for target in ContextTarget] == ["system", "session", "conversation", "suffix_system"]
    assert [reason.value for reason in CompactionSkip] == ["empty_summary", "min_savings_ratio"]
