"""Snapshots of every release: older ones load for ever, and newer ones are not read.

`snapshots/<format>.json` has threads as a release with this format wrote them. `snapshots/fields.json` has a digest of
all fields of a snapshot. When they change, raise `FORMAT` in `wakeful/loop/thread/continue_as_new.py` and run
`python -m tests.loop.thread.test_snapshot_format`, which pins the new format. Never change a file of an earlier format:
threads that are asleep have such snapshots in their history.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue, TypeAdapter

from tests.loop.children import background_call, idle_with_task, mail_received, spawn_call, with_tasks
from tests.loop.driving import THREAD, Driver, asks, awaiting_decisions, call, reject, resume, says, snapshot_of
from wakeful.contract.errors import NewerRelease
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.runs import OnBusy
from wakeful.contract.settings import RunSettings
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.thread import continue_as_new
from wakeful.loop.thread.continue_as_new import FORMAT, ThreadSnapshot, pack, unpack

PINNED = Path(__file__).parent / "snapshots"
FIELDS = PINNED / "fields.json"
PROSE = ("title", "description")
RAISE = "a field of snapshots has changed: raise FORMAT, then run `python -m tests.loop.thread.test_snapshot_format`"

Packed = dict[str, Any]


def waiting_for_a_decision() -> Driver:
    """A thread with a bit of everything: a suspended call, queued and steering messages, mail, outcomes, refusals."""
    driver = awaiting_decisions()
    driver.submit("m1")
    driver.submit("m2", on_busy=OnBusy.STEER)
    driver.submit("m3", on_busy=OnBusy.REJECT)
    driver.feed(mail_received("msg_1"))
    driver.decide(reject("nothing", id="d1"))
    return driver


def holding_a_decision() -> Driver:
    driver = Driver(request=THREAD)
    driver.model(asks(call("c1"), call("c2")))
    driver.decide(resume("c2", {"at": "Paris"}, id="d1"))
    return driver


def between_two_runs() -> Driver:
    driver = Driver(request=THREAD)
    driver.model(says("Hello!"))
    return driver


THREADS: dict[str, Callable[[], Driver]] = {
    "resolving": lambda: Driver(None, request=THREAD),
    "inferring": lambda: Driver(request=THREAD),
    "waiting for a decision": waiting_for_a_decision,
    "holding a decision": holding_a_decision,
    "between two runs": between_two_runs,
    "with background tasks": lambda: with_tasks(spawn_call("c1"), background_call("c2")),
    "idle with a task": lambda: idle_with_task(spawn_call("c1")),
}


def fields() -> JsonValue:
    """A digest of all fields of a snapshot, and of everything in it; what they are called in prose does not count."""
    schema = TypeAdapter(ThreadSnapshot).json_schema(mode="serialization")
    written = json.dumps(_without_prose(schema), sort_keys=True)
    return {"format": FORMAT, "digest": hashlib.sha256(written.encode()).hexdigest()}


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_prose(each) for each in schema]
    if isinstance(schema, dict):
        return {
            key: _without_prose(value)
            for key, value in schema.items()
            if key not in PROSE or not isinstance(value, str)
        }
    return schema


def pinned(number: int) -> dict[str, Packed]:
    path = PINNED / f"{number}.json"
    threads: dict[str, Packed] = json.loads(path.read_text()) if path.exists() else {}
    return threads


EVERY = [
    pytest.param(number, name, id=f"{number} {name}") for number in range(1, FORMAT + 1) for name in pinned(number)
]


def test_the_format_is_raised_when_a_field_changes() -> None:
    assert json.loads(FIELDS.read_text()) == fields(), RAISE


@pytest.mark.parametrize(("number", "name"), EVERY)
def test_a_snapshot_of_every_format_loads(number: int, name: str) -> None:
    thread = unpack(pinned(number)[name]).thread
    expected = THREADS[name]().thread
    assert (thread.stage.kind, thread.counters) == (expected.stage.kind, expected.counters)
    assert (thread.queued, thread.steering) == (_waiting(expected)[0], _waiting(expected)[1])
    assert thread.outcomes == expected.outcomes


def _waiting(thread: Any) -> tuple[Any, Any]:
    after = unpack(pack(snapshot_of(thread))).thread
    return after.queued, after.steering


def test_the_settings_of_a_run_are_read_from_a_format_that_had_them_one_by_one() -> None:
    packed = pinned(4)["inferring"]
    packed["thread"]["run"] |= {"overrides": {"max_tokens": 9}, "is_live": True}
    expected = RunSettings(overrides=InferenceOverrides(max_tokens=9), live=True)
    assert unpack(packed).thread.current.settings == expected


def test_every_format_is_pinned() -> None:
    assert sorted(int(path.stem) for path in PINNED.glob("[0-9]*.json")) == list(range(1, FORMAT + 1))
    assert {packed["format"] for packed in pinned(FORMAT).values()} == {FORMAT}


def test_a_snapshot_of_a_newer_release_is_not_read() -> None:
    """Reading it would drop its fields that this release does not know, and the thread would continue without them."""
    packed = pack(snapshot_of(between_two_runs().thread)) | {"format": FORMAT + 1}
    with pytest.raises(NewerRelease, match=rf"has format {FORMAT + 1}, and this release knows formats up to {FORMAT}"):
        unpack(packed)


def test_a_run_that_is_pinned_to_newer_rules_is_not_continued() -> None:
    packed = pack(snapshot_of(between_two_runs().thread))
    packed["thread"]["run"]["revision"] = REVISION + 1
    with pytest.raises(NewerRelease, match=f"has revision {REVISION + 1}"):
        unpack(packed)


def pin() -> None:
    """Write the files of the newest format; an earlier one is never written again."""
    before = json.loads(FIELDS.read_text()) if FIELDS.exists() else {"format": 0}
    if before["format"] == continue_as_new.FORMAT and before != fields():
        raise SystemExit(RAISE)
    PINNED.mkdir(exist_ok=True)
    threads = {name: pack(snapshot_of(make().thread)) for name, make in THREADS.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(packed)}" for name, packed in threads.items())
    (PINNED / f"{FORMAT}.json").write_text(f"{{\n{lines}\n}}\n")
    FIELDS.write_text(json.dumps(fields()) + "\n")


if __name__ == "__main__":
    pin()
