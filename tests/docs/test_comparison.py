"""docs/comparison.md is true: its figures are those that were measured, and our side of each migration runs."""

import re
import statistics
from collections.abc import Sequence
from typing import Any

from temporalio.client import Client as TemporalClient
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from benchmarks.results import Results
from tests.conftest import worker_settings
from tests.docs.snippets import of_page
from tests.support.processes import ROOT
from tests.support.waiting import until_status
from wakeful import Client, Registry, RunStatus, ScriptedModel, WakefulPlugin, call, running_worker, say
from wakeful.testing import Turn

PAGE = ROOT / "docs/comparison.md"
TEXT = PAGE.read_text()
RESULTS = Results.model_validate_json((ROOT / "benchmarks/results.json").read_text())
SIDES = ("wakeful", "wakeful, local tools")


def table(text: str, name: str) -> list[str]:
    """The rows of the table between two comments."""
    section = text.partition(f"<!-- {name}: ")[2].partition(f"<!-- end of {name} -->")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 2
    return rows


def test_the_figures_of_the_others_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "docs/benchmarks.md").read_text().splitlines()
    assert [row for row in table(TEXT, "figures") if row not in measured] == []


def costs(label: str, series: str, bare: str) -> str:
    measured = RESULTS.series[series]
    ratios = [measured.ratios(side) for side in SIDES]
    return row(
        label, bare.format(measured.median("bare")), [statistics.median(each) if each else None for each in ratios]
    )


def history(label: str, steps: int, size: int) -> str:
    sizes = {each.side: each.bytes for each in RESULTS.histories if (each.steps, each.size) == (steps, size)}
    return row(label, f"{sizes['bare'] / 1024:.0f} KB", [sizes[side] / sizes["bare"] for side in SIDES])


def row(label: str, bare: str, ratios: Sequence[float | None]) -> str:
    cells = [label, bare, *("" if ratio is None else f"{ratio:.2f}x" for ratio in ratios)]
    return "| " + " | ".join(cells).rstrip() + " |"


def test_the_figures_of_wakeful_are_those_of_the_results_file() -> None:
    assert table(TEXT, "results")[2:] == [
        costs("time per step", "step.time", "{:.1f} ms"),
        costs("worker CPU per step", "step.worker_cpu", "{:.1f} ms"),
        costs("runs of 5 steps per second, 64 at once", "runs.64", "{:.1f}"),
        costs("decision to next inference", "decision", "{:.0f} ms"),
        history("history, 100 steps of 1 KB", 100, 1024),
        history("history, 400 steps of 1 KB", 400, 1024),
    ]


def ours(heading: str) -> dict[str, Any]:
    """What the second block below a heading defines: the first is the code to migrate."""
    start = TEXT[: TEXT.index(f"\n## From {heading}\n")].count("\n") + 1
    _theirs, block = [snippet for snippet in of_page(PAGE) if snippet.line > start][:2]
    names: dict[str, Any] = {"__name__": block.module}
    exec(compile(block.code, str(block), "exec"), names)
    return names


def scripted(registry: Registry, *turns: Turn) -> Registry:
    """The registry of the page, whose models follow this script instead of calling a provider."""
    return registry.copy(models=dict.fromkeys(registry.models, ScriptedModel(turns)))


async def answer(temporal: TemporalClient, registry: Registry, queue: str) -> tuple[str, str]:
    """The agent that answers, and what it says."""
    async with running_worker(temporal, registry, worker_settings(task_queue=queue, sweep_interval=None)):
        client = Client(temporal, task_queue=queue)
        result = await client.run("buyer", "How many grinders?", thread_id=queue)
        return (await client.events(queue)).events[-1].agent_id, result.response


async def test_the_agent_from_pydantic_ai_runs(temporal: TemporalClient, thread_id: str) -> None:
    registry = scripted(ours("pydantic-ai")["registry"], call("stock", item="grinder"), say("We have {result}."))
    assert await answer(temporal, registry, thread_id) == ("buyer", "We have 3.")


async def test_the_agent_from_langgraph_runs_in_a_workflow(temporal: TemporalClient, thread_id: str) -> None:
    names = ours("LangGraph")
    registry = scripted(names["registry"], call("look_up", item="grinder"), say("We have {result}."))
    async with Worker(
        temporal,
        task_queue=thread_id,
        workflows=[names["Buyer"]],
        plugins=[WakefulPlugin(registry)],
        workflow_runner=UnsandboxedWorkflowRunner(),  # the sandbox cannot import code that is not in a file
    ):
        found = await temporal.execute_workflow("Buyer", "How many grinders?", id=thread_id, task_queue=thread_id)
    assert found == "We have 3."


async def test_the_agents_from_openai_agents_hand_off(temporal: TemporalClient, thread_id: str) -> None:
    registry = ours("OpenAI Agents")["registry"]
    handing = scripted(registry, call("handoff_to_refunds"), say("I refund it."))
    assert await answer(temporal, handing, thread_id) == ("refunds", "I refund it.")
    asking = scripted(registry, call("stock", item="grinder"), say("We have {result}."))
    assert await answer(temporal, asking, f"{thread_id}-2") == ("buyer", "We have 3.")


async def test_the_agent_from_a_hand_written_workflow_waits_for_an_approval(
    temporal: TemporalClient, thread_id: str
) -> None:
    names = ours("a hand-written workflow")
    registry = scripted(names["registry"], call("order_item", item="grinder", pieces=7), say("Done: {result}."))
    async with running_worker(temporal, registry, worker_settings(task_queue=thread_id, sweep_interval=None)):
        client = Client(temporal, task_queue=thread_id)
        await client.start("buyer", "Seven grinders, please.", thread_id=thread_id)
        await until_status(client, thread_id, RunStatus.WAITING)
        decision = {"call_id": "1-1", "action": "resume"}
        await temporal.get_workflow_handle(thread_id).signal("decide", decision)  # with nothing but Temporal
        assert (await client.result(thread_id)).response == "Done: ordered 7 x grinder."


def test_the_page_names_every_way_that_was_measured() -> None:
    names = [re.split(r" \| ", row.strip("| "))[0] for row in table(TEXT, "figures")[2:]]
    headings = re.findall(r"^## From (?:a )?(.+)$", TEXT, re.MULTILINE)
    assert headings == ["pydantic-ai", "LangGraph", "OpenAI Agents", "hand-written workflow"]
    assert all(any(name.startswith(heading) for name in names) for heading in headings[:3])
