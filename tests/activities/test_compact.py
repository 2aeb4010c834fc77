"""The `compact` activity: which model summarises what, and what it costs to read it."""

from collections.abc import Sequence

from tests.activities.wiring import activities, cache_of, environment
from wakeful import Agent, ContextPolicy, Registry, say
from wakeful.authoring.scripted import ScriptedModel
from wakeful.contract.context import CompactionMark
from wakeful.contract.inference import CompactInput, CompactOutput, InferInput, TranscriptRef
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.model_settings import ModelSettings
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.loop.thread.transcript import TranscriptPosition
from wakeful_activities import HistoryCache
from wakeful_activities.compact import CompactActivity
from wakeful_activities.history_cache import _Thread

POLICY = ContextPolicy(
    max_context_tokens=20_000,
    max_output_tokens=100,
    autocompact_threshold=2_000,
    summary_max_tokens=77,
    summary_model="small",
)
SAID = tuple(
    Message(id=f"m{number}", role=Role.USER, content=(TextBlock(text=f"{number} {'word ' * 900}"),))
    for number in range(6)
)


def digest_of(messages: Sequence[Message]) -> str:
    digest = EMPTY_DIGEST
    for message in messages:
        digest = chained(digest, message)
    return digest


REF = TranscriptRef(length=len(SAID), digest=digest_of(SAID))


def world() -> tuple[Registry, HistoryCache, ScriptedModel, ScriptedModel]:
    main, small = ScriptedModel([say("main")]), ScriptedModel([say("short")])
    agent = Agent(id="a", context=POLICY)
    registry = Registry(agents=[agent], models={"default": main, "small": small})
    return registry, cache_of(registry.resolve("a")), main, small


async def compact(
    registry: Registry, cache: HistoryCache, *, previous: CompactionMark | None = None, limit: int | None = None
) -> CompactOutput:
    async def run(input: CompactInput) -> CompactOutput:
        if previous is not None:
            cache.put_mark("compact-1", previous)
        else:
            await cache.transcript(InferInput(agent="", transcript=REF, appended=SAID))
        with activities(registry, cache) as wired:
            return await CompactActivity(wired.infer, cache).compact(input)

    digest = registry.resolve("a").digest()
    input = CompactInput(agent=digest, transcript=REF, previous="compact-1" if previous else None, limit=limit)
    return await environment().run(run, input)


async def test_the_summary_model_summarises_with_the_token_limit_of_the_policy() -> None:
    """B-463"""
    registry, cache, main, small = world()
    output = await compact(registry, cache)
    (request,) = small.requests
    assert (main.requests, request.model, request.settings) == ((), "small", ModelSettings(max_tokens=77))
    assert output.mark is not None
    assert (output.mark.summary, output.mark.through) == ("short", 4)


async def test_a_summary_covers_only_as_much_as_the_model_takes() -> None:
    registry, cache, _, small = world()
    output = await compact(registry, cache, limit=2_500)
    assert output.mark is not None
    assert output.mark.through == 2
    assert len(small.requests[0].messages[0].text) < 4 * 2_700


async def test_a_mark_names_the_digest_of_what_it_covers() -> None:
    registry, cache, _, _ = world()
    mark = (await compact(registry, cache)).mark
    assert mark is not None
    assert mark.digest == digest_of(SAID[: mark.through])


async def test_what_the_last_mark_covers_is_not_read_again() -> None:
    """The cache has no client here: reading anything older would fail."""
    registry, cache, _, small = world()
    start = TranscriptPosition(2, digest_of(SAID[:2]))
    known = _Thread(start=start)
    for message in SAID[2:]:
        known.append(message)
    cache._threads.put("test", known)
    before = CompactionMark(through=2, summary="Before.", pre_tokens=4_000, post_tokens=50)
    output = await compact(registry, cache, previous=before)
    (request,) = small.requests
    text = request.messages[0].text
    assert "<previous-summary>\nBefore.\n</previous-summary>\n\n[User]: 2 word" in text
    assert ("[User]: 1 word" in text, "[User]: 3 word" in text, "[User]: 4 word" in text) == (False, True, False)
    assert output.mark is not None
    assert (output.mark.through, output.mark.digest) == (4, digest_of(SAID[:4]))
