"""What is written to history is permanent: `pinned/<module>.json` pins the JSON of every type of the contract.

To pin a new type or field, add a line `{"type": …, "name": …, "json": …}` to the file of its module, where `json` is
what `model_dump_json()` writes. An event is pinned within its `EventRecord`; the values of an enum are in `enums.json`.
Never change a line that was released: runs that are asleep have it in their history. A new field has a default, so that
the existing lines stay valid.
"""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, get_args

import pytest
from pydantic import BaseModel, JsonValue, ValidationError

from wakeful import contract
from wakeful.contract.base import Wire, Written
from wakeful.contract.carryover import Carryover
from wakeful.contract.events import AgentEvent, EventRecord
from wakeful.contract.requests import RunRequest
from wakeful.contract.settings import Caller, RunSettings

PINNED = Path(__file__).parent / "pinned"

T = TypeVar("T")


@dataclass(frozen=True)
class Pin:
    type: type[BaseModel]
    name: str
    json: dict[str, JsonValue]

    def value(self) -> BaseModel:
        return self.type.model_validate_json(json.dumps(self.json))


def defined_below(*bases: type[T]) -> dict[str, type[T]]:
    """The subclasses of these types that the contract defines, by name."""
    for module in pkgutil.iter_modules(contract.__path__, prefix=f"{contract.__name__}."):
        importlib.import_module(module.name)
    found: dict[str, type[T]] = {}
    unread = list(bases)
    while unread:
        for kind in unread.pop().__subclasses__():
            if kind.__module__.startswith(f"{contract.__name__}."):
                found[kind.__name__] = kind
                unread.append(kind)
    return found


TYPES = defined_below(Wire, Written)
ENUMS = defined_below(StrEnum)
EVENTS = {kind.model_fields["event_type"].default: kind for kind in get_args(get_args(AgentEvent)[0])}


def read_pins() -> Iterator[Pin]:
    for module in sorted({kind.__module__.rpartition(".")[2] for kind in TYPES.values()}):
        path = PINNED / f"{module}.json"
        for line in json.loads(path.read_text()) if path.exists() else ():
            pin = Pin(TYPES[line["type"]], line["name"], line["json"])
            assert pin.type.__module__.endswith(f".{module}"), f"{pin.type.__name__} is not defined in {module}.py"
            yield pin
            if pin.type is EventRecord:
                event = line["json"]["event"]
                yield Pin(EVENTS[event["event_type"]], pin.name, event)


PINS = tuple(read_pins())
ONE_PER_TYPE = {pin.type: pin for pin in PINS}


def label(pin: Pin) -> str:
    return f"{pin.type.__name__} {pin.name}"


NEVER_DIGESTED = (RunSettings, Caller, Carryover)
"""No digest is made of their JSON, so their keys may change places: fields of one value stand together."""


def canonical(value: JsonValue, kind: type[BaseModel]) -> str:
    """Comparable text in which the order of keys counts, if a digest may depend on it."""
    return json.dumps(value, separators=(",", ":"), sort_keys=issubclass(kind, NEVER_DIGESTED))


@pytest.mark.parametrize("pin", PINS, ids=label)
def test_json_is_read_and_written_again_unchanged(pin: Pin) -> None:
    """B-700"""
    expected = canonical(pin.json, pin.type)
    assert canonical(json.loads(pin.value().model_dump_json()), pin.type) == expected
    assert canonical(pin.value().model_dump(mode="json"), pin.type) == expected


def test_every_file_belongs_to_a_module_and_every_pin_has_a_name_of_its_own() -> None:
    modules = {kind.__module__.rpartition(".")[2] for kind in TYPES.values()}
    assert {path.stem for path in PINNED.iterdir()} - modules == {"enums"}
    labels = [label(pin) for pin in PINS]
    assert sorted({name for name in labels if labels.count(name) > 1}) == []


def test_every_type_is_pinned_with_each_of_its_fields() -> None:
    """B-700"""
    pinned: dict[str, set[str]] = {}
    for pin in PINS:
        pinned.setdefault(pin.type.__name__, set()).update(pin.json)
    missing = {
        name: sorted(fields)
        for name, kind in TYPES.items()
        if (fields := set(kind.model_fields) - pinned.get(name, set())) or name not in pinned
    }
    assert missing == {}, "add lines with these fields to tests/contract/pinned"


def test_the_values_of_every_enum_are_pinned_in_order() -> None:
    """B-050, B-304, B-406"""
    assert json.loads((PINNED / "enums.json").read_text()) == {
        name: [member.value for member in ENUMS[name]] for name in sorted(ENUMS)
    }


READ = [pin for pin in ONE_PER_TYPE.values() if not issubclass(pin.type, Written)]


@pytest.mark.parametrize("pin", READ, ids=label)
def test_what_is_read_from_the_wire_ignores_an_unknown_field(pin: Pin) -> None:
    assert pin.type.model_validate({**pin.json, "since_the_next_release": 1}) == pin.value()


@pytest.mark.parametrize("pin", [pin for pin in ONE_PER_TYPE.values() if issubclass(pin.type, Written)], ids=label)
def test_what_people_write_rejects_an_unknown_field_by_name(pin: Pin) -> None:
    with pytest.raises(ValidationError) as rejected:
        pin.type.model_validate({**pin.json, "agnet_id": "assistant"})
    assert [(error["type"], error["loc"]) for error in rejected.value.errors()] == [("extra_forbidden", ("agnet_id",))]


def test_an_unknown_field_deep_inside_a_request_is_rejected_by_name() -> None:
    with pytest.raises(ValidationError, match="colour"):
        RunRequest.model_validate({"agent_id": "a", "input": [{"content": "hello", "colour": "red"}]})


@pytest.mark.parametrize("pin", ONE_PER_TYPE.values(), ids=label)
def test_values_are_immutable(pin: Pin) -> None:
    value = pin.value()
    for field in pin.type.model_fields:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(value, field, None)
