"""`@tool`: a descriptor and a check of arguments from a typed function."""

import typing
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from wakeful import ConfigurationError, ResumeMode, ToolContext, ToolError, tool
from wakeful.authoring.hook_requests import HookRequests
from wakeful.authoring.tool_context import SuspendCall
from wakeful.contract.hooks import FinalAnswer
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import Effects


class Place(BaseModel):
    """A place on earth."""

    title: str
    latitude: float


def test_the_schema_comes_from_types_and_docstring() -> None:
    @tool
    def forecast(city: str, days: int = 3, unit: Literal["C", "F"] = "C") -> str:
        """Tell the weather.

        In some detail.

        Args:
            city: Where.
            days: How many days ahead.
        """
        return city

    descriptor = forecast.descriptor
    assert (descriptor.id, descriptor.description) == ("forecast", "Tell the weather.\n\nIn some detail.")
    assert descriptor.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "default": 3, "description": "How many days ahead."},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_nested_types_are_inlined() -> None:
    """B-202."""

    @tool
    def visit(place: Place, via: list[Place] | None = None) -> None:
        """Go there."""

    assert "$defs" not in visit.descriptor.parameters
    place = {
        "type": "object",
        "description": "A place on earth.",
        "properties": {"title": {"type": "string"}, "latitude": {"type": "number"}},
        "required": ["title", "latitude"],
    }
    assert visit.descriptor.parameters["properties"] == {
        "place": place,
        "via": {"type": "array", "items": place},
    }


def test_a_parameter_that_may_be_left_out_has_no_null_in_its_schema_and_accepts_one() -> None:
    """B-202."""

    class Filter(BaseModel):
        note: str | None = None
        parent: int | None

    @tool
    def search(by: Filter, limit: int | str | None = None, size: Annotated[int | None, Field(ge=1)] = None) -> None:
        """Search.

        Args:
            size: how many.
        """

    assert search.descriptor.parameters["properties"] == {
        "by": {
            "type": "object",
            "properties": {
                "note": {"type": "string"},
                "parent": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "required": ["parent"],
        },
        "limit": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "size": {"type": "integer", "minimum": 1, "description": "how many."},
    }
    arguments: JsonValue = {"by": {"note": None, "parent": None}, "limit": None, "size": None}
    assert search.parse(arguments) == {"by": Filter(note=None, parent=None), "limit": None, "size": None}


class Node(BaseModel):
    children: list["Node"] = []


def test_a_type_that_contains_itself_keeps_its_definition() -> None:
    @tool
    def plant(root: Node) -> None:
        """Plant a tree."""

    assert "Node" in plant.descriptor.parameters["$defs"]  # type: ignore[operator]


def test_arguments_are_parsed_into_the_types_of_the_parameters() -> None:
    @tool
    def visit(place: Place, count: Annotated[int, Field(ge=1)] = 1) -> None:
        """Go there."""

    assert visit.parse({"place": {"title": "Rome", "latitude": 41.9}}) == {
        "place": Place(title="Rome", latitude=41.9),
        "count": 1,
    }
    with pytest.raises(ToolError, match=r"^Invalid arguments: place\.latitude: Field required; count: Input should be"):
        visit.parse({"place": {"title": "Rome"}, "count": 0})


def test_null_stands_for_no_arguments() -> None:
    """B-202."""

    @tool
    def ping() -> str:
        """Answer."""
        return "pong"

    assert ping.parse(None) == {}
    assert ping() == "pong"


def test_the_context_is_found_by_its_type_and_hidden_from_the_model() -> None:
    @tool
    async def who(name: str, *, about: ToolContext) -> str:
        """Say who."""
        return name

    assert who.context_parameter == "about"
    assert list(who.descriptor.parameters["properties"]) == ["name"]  # type: ignore[arg-type]
    assert who.is_async


def test_options_reach_the_descriptor() -> None:
    @tool(name="pay", description="Pay.", idempotent=True, timeout=5, heartbeat_timeout=2, task_queue="bank")
    def _pay() -> None: ...

    descriptor = _pay.descriptor
    assert (descriptor.id, descriptor.description, descriptor.effects) == ("pay", "Pay.", Effects.IDEMPOTENT)
    assert (descriptor.timeout_seconds, descriptor.heartbeat_seconds, descriptor.task_queue) == (5, 2, "bank")
    assert (descriptor.queue_seconds, descriptor.retries) == (900, 0)


def test_a_tool_of_another_task_queue_says_how_long_it_may_be_queued_and_how_often_its_errors_are_retried() -> None:
    @tool(read_only=True, task_queue="bank", queue_timeout=60, retries=3)
    def rate() -> None: ...

    assert (rate.descriptor.queue_seconds, rate.descriptor.retries) == (60, 3)
    assert "queue_seconds" not in tool(name="idle")(lambda: None).descriptor.model_dump_json()


def test_a_tool_of_another_task_queue_need_not_heartbeat() -> None:
    @tool(task_queue="bank", heartbeat_timeout=0)
    def rate() -> None: ...

    assert rate.descriptor.heartbeat_seconds == 0


def test_all_unsupported_parameters_are_reported() -> None:
    def vague(untyped, /, *rest: int, **more: Any) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(ConfigurationError) as error:
        tool(vague)
    assert len(error.value.problems) == 3
    assert all(problem.startswith("tool 'vague': parameter") for problem in error.value.problems)


def test_a_parameter_without_a_type_is_reported() -> None:
    def vague(city) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(ConfigurationError, match="tool 'vague': parameter 'city' needs a type"):
        tool(vague)


def test_a_type_without_a_schema_is_reported() -> None:
    def odd(callback: typing.TypedDict("Odd", {"x": int})) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(ConfigurationError, match="tool 'odd': its parameters have no JSON schema"):
        tool(odd)


def context(**changes: Any) -> ToolContext:
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    fields = {"identity": identity, "call_id": "c", "tool_name": "pay", "arguments": {"n": 1}, "idempotency_key": "k"}
    return ToolContext(**{**fields, **changes})


def test_a_tool_suspends_with_a_ticket_about_its_own_call() -> None:
    """B-311."""
    with pytest.raises(SuspendCall) as suspended:
        context().suspend(
            "Pay?",
            resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
            response_schema={"type": "boolean"},
            expires_after=3600,
            on_expiry="resume",
            default_result=False,
            escalate_after=60,
        )
    assert suspended.value.ticket.model_dump(mode="json") == {
        "suspension": {
            "id": "suspend_c",
            "action": "tool:pay",
            "message": "Pay?",
            "parameters": {"n": 1},
            "response_schema": {"type": "boolean"},
            "expiry": {"after_seconds": 3600.0, "then": "resume", "result": False},
            "escalate_after_seconds": 60.0,
        },
        "pending": {"id": "c", "name": "pay", "arguments": {"n": 1}},
        "resume_mode": "use_decision_as_tool_result",
    }


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"on_expiry": "deny"}, "on_expiry='deny' needs expires_after, in seconds"),
        ({"on_expiry": "perhaps"}, "on_expiry should be 'cancel', 'deny' or 'resume', not 'perhaps'"),
        ({"resume_mode": "replay"}, "resume_mode should be 'replay_tool_call', 'use_decision_as"),
        ({"expires_after": 0}, "expires_after is 0; it must be a finite number of seconds above 0"),
        ({"expires_after": 5, "default_result": 1}, "pass on_expiry='resume'"),
        ({"escalate_after": -1}, "escalate_after is -1; it must be a finite number of seconds above 0"),
        ({"response_schema": {"type": "yes or no"}}, "response_schema is not a valid JSON schema: 'yes or no'"),
        ({"response_schema": "boolean"}, "response_schema must be a JSON schema, not a str"),
    ],
)
def test_an_invalid_question_is_rejected(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError) as error:
        context().suspend("Pay?", **options)
    assert wrong in str(error.value)


def test_progress_goes_to_the_sink() -> None:
    reports: list[object] = []
    context(progress_sink=reports.append).report("half", progress=0.5)
    context().report("without a sink")
    assert reports == [{"message": "half", "progress": 0.5}]


def test_events_go_to_the_sink_as_they_were_when_they_were_emitted() -> None:
    """B-535."""
    emitted: list[tuple[str, object]] = []

    def sink(event_type: str, payload: JsonValue) -> bool:
        emitted.append((event_type, payload))
        return True

    found: dict[str, JsonValue] = {"n": 1}
    assert context(emit_sink=sink).emit("found", found)
    found["n"] = 2
    assert context(emit_sink=sink).emit("done")
    assert not context().emit("without a sink")
    assert emitted == [("found", {"n": 1}), ("done", None)]


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize("payload", [object(), {"at": {1, 2}}, float("nan"), LOOP, "\ud800"])
def test_the_payload_of_an_event_must_be_json(payload: Any) -> None:
    with pytest.raises(TypeError, match="the payload of event 'found' is not JSON"):
        context(emit_sink=lambda _type, _payload: True).emit("found", payload)


def test_a_message_for_the_owner_of_a_task_goes_to_the_sink() -> None:
    """B-537"""
    assert context(message_sink=lambda text: text == "Look at row 7.").emit_message("Look at row 7.")
    assert not context().emit_message("without a sink")
    with pytest.raises(ValueError, match="at most 200,000 are allowed"):
        context().emit_message("x" * 200_000)


def test_what_a_tool_shows_goes_to_the_sinks_as_it_was_then() -> None:
    """B-242: a patch that is not a list is one operation; without a sink, nothing happens."""
    shown: list[object] = []
    ctx = context(
        stream_sink=shown.append,
        activity_sink=lambda kind, content: shown.append((kind, content)),
        patch_sink=lambda kind, patch: shown.append((kind, patch)),
    )
    plan: dict[str, JsonValue] = {"done": 0}
    done: dict[str, JsonValue] = {"op": "replace", "path": "/done", "value": 1}
    for each in (ctx, context()):
        each.stream("one")
        each.show_activity("plan", plan)
        each.patch_activity("plan", done)
        each.patch_activity("plan", [done, done])
    plan["done"] = 9
    assert shown == ["one", ("plan", {"done": 0}), ("plan", (done,)), ("plan", (done, done))]


def test_the_payload_of_an_event_must_be_short_enough_for_a_model() -> None:
    with pytest.raises(ValueError, match="'found' has 200,002 characters; at most 200,000 are allowed"):
        context().emit("found", "x" * 200_000)


def test_a_tool_requests_what_a_hook_can_request() -> None:
    ctx = context()
    ctx.handoff("clerk")
    ctx.finish("Done.")
    assert ctx.requests == HookRequests(handoff="clerk", finish=FinalAnswer(text="Done."))


def test_a_tool_has_metadata_for_programs_b200() -> None:
    @tool(metadata={"owner": "ann"}, category="weather")
    def look() -> None:
        """Look."""

    assert (look.descriptor.metadata, look.descriptor.category) == ({"owner": "ann"}, "weather")
    with pytest.raises(ConfigurationError, match="the metadata of tool 'show' is not JSON"):
        tool(name="show", metadata={"at": object()})(look.function)  # type: ignore[dict-item]


def test_a_tool_may_run_in_the_background_on_any_queue() -> None:
    @tool(background=True, task_queue="gpu")
    def render() -> None: ...

    assert (render.descriptor.background, render.descriptor.task_queue) == (True, "gpu")
    assert "background" not in tool(name="idle")(lambda: None).descriptor.model_dump_json()


def test_a_local_tool_cannot_run_in_the_background() -> None:
    with pytest.raises(ConfigurationError, match="tool 'look' is local: it cannot run in the background"):

        @tool(background=True, local=True, read_only=True)
        def look() -> None: ...


def test_a_checkpoint_is_a_copy_of_json() -> None:
    recorded: list[JsonValue] = []
    value: dict[str, JsonValue] = {"pages": [1]}
    made = context(checkpoint_sink=recorded.append)
    made.checkpoint(value)
    value["pages"] = []
    assert recorded == [{"pages": [1]}]
    assert made.last_checkpoint is None


@pytest.mark.parametrize(
    ("value", "error", "problem"),
    [
        (float("nan"), TypeError, "a checkpoint has to be JSON"),
        ({1, 2}, TypeError, "a checkpoint has to be JSON"),
        ("\ud800", TypeError, "a checkpoint has to be JSON"),
        ("é" * 16_000, ValueError, "the checkpoint has 32,002 bytes; at most 32,000 are allowed: store large data"),
    ],
)
def test_what_is_no_checkpoint_is_refused(value: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        context().checkpoint(value)


class Payee(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(alias="full_name")


@tool
def pay_to(payee: Payee) -> str:
    """Pay."""
    return payee.name


def test_arguments_have_the_names_of_the_schema_alone() -> None:
    """A permission rule reads `payee.full_name`; a second name for the field would evade it."""
    assert pay_to.parse({"payee": {"full_name": "ann"}}) == {"payee": Payee(full_name="ann")}
    with pytest.raises(ToolError, match="full_name: Field required"):
        pay_to.parse({"payee": {"name": "ann"}})
