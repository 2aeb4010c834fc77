"""What is written to history is for ever: the JSON of every contract type, letter by letter."""

import importlib
import json
import pkgutil
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from tests.context import pins as context
from tests.contract.pinned import (
    agents,
    budgets,
    decisions,
    events,
    forks,
    gates,
    hooks,
    inference,
    mail,
    messages,
    requests,
    runs,
    state,
    stopping,
    streaming,
    subagents,
    tasks,
    tools,
    views,
)
from tests.contract.pinned.pin import Pin
from wakeful import contract
from wakeful.contract.base import Wire, Written
from wakeful.contract.events import AgentEvent, EventRecord
from wakeful.contract.requests import RunRequest

PINS: tuple[Pin, ...] = (
    *messages.PINS,
    *decisions.PINS,
    *runs.PINS,
    *tools.PINS,
    *agents.PINS,
    *inference.PINS,
    *streaming.PINS,
    *requests.PINS,
    *gates.PINS,
    *state.PINS,
    *hooks.PINS,
    *stopping.PINS,
    *events.PINS,
    *views.PINS,
    *budgets.PINS,
    *tasks.PINS,
    *mail.PINS,
    *subagents.PINS,
    *forks.PINS,
    *context.PINS,
)
EVENT_TYPES = {
    *("run_start", "run_finish", "step_start", "step_end", "text_delta", "reasoning_delta"),
    *("reasoning_encrypted_value", "tool_call_start", "tool_call_delta", "tool_call_ready", "tool_call_done"),
    *("tool_call_stream_delta", "tool_call_resumed", "tool_call_cancel", "stream_reset", "messages_snapshot"),
    *("activity_snapshot", "activity_delta", "inference_complete", "state_snapshot", "state_delta", "error"),
    *("signal_refused", "decision_overdue", "handoff", "task_changed", "mail_received", "plugin_event"),
    *("hook_failed", "state_conflict", "child_started"),
}


def named(pin: Pin) -> str:
    return type(pin.value).__name__


def contract_types() -> set[type[BaseModel]]:
    for module in pkgutil.iter_modules(contract.__path__, prefix=f"{contract.__name__}."):
        importlib.import_module(module.name)
    found: set[type[BaseModel]] = set()
    unread: list[type[BaseModel]] = [Wire, Written]
    while unread:
        below = [kind for kind in unread.pop().__subclasses__() if kind.__module__.startswith(contract.__name__)]
        found.update(below)
        unread.extend(below)
    return found


@pytest.mark.parametrize("pin", PINS, ids=named)
def test_a_value_is_written_as_it_has_always_been(pin: Pin) -> None:
    assert pin.value.model_dump_json() == pin.json


@pytest.mark.parametrize("pin", PINS, ids=named)
def test_what_was_written_is_read_back_as_the_same_value(pin: Pin) -> None:
    assert type(pin.value).model_validate_json(pin.json) == pin.value


def test_every_type_of_the_contract_is_pinned() -> None:
    assert sorted(kind.__qualname__ for kind in contract_types() - {type(pin.value) for pin in PINS}) == []


def test_every_event_type_is_pinned_within_its_record() -> None:
    """B-700"""
    recorded = {pin.value.event.event_type for pin in PINS if isinstance(pin.value, EventRecord)}
    union = {kind.model_fields["event_type"].default for kind in get_args(get_args(AgentEvent)[0])}
    assert (recorded, union) == (EVENT_TYPES, EVENT_TYPES)


@pytest.mark.parametrize("pin", [pin for pin in PINS if isinstance(pin.value, Wire)], ids=named)
def test_an_old_worker_reads_a_newer_history(pin: Pin) -> None:
    newer = {**json.loads(pin.json), "since_the_next_release": 1}
    assert type(pin.value).model_validate(newer) == pin.value


@pytest.mark.parametrize("pin", [pin for pin in PINS if isinstance(pin.value, Written)], ids=named)
def test_a_typo_in_what_a_person_writes_is_refused_by_name(pin: Pin) -> None:
    with pytest.raises(ValidationError) as refused:
        type(pin.value).model_validate({**json.loads(pin.json), "agnet_id": "assistant"})
    assert [(error["type"], error["loc"]) for error in refused.value.errors()] == [("extra_forbidden", ("agnet_id",))]


def test_a_typo_deep_inside_a_request_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="colour"):
        RunRequest.model_validate({"agent_id": "a", "input": [{"content": "hello", "colour": "red"}]})


@pytest.mark.parametrize("pin", PINS, ids=named)
def test_a_value_of_the_contract_never_changes(pin: Pin) -> None:
    for field in type(pin.value).model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(pin.value, field, None)
