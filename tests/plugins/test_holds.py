"""A run that is held open on a real server: a message continues it, and it ends once the work is released (B-410)."""

from tests.plugins.conftest import Serving
from wakeful import AfterInference, Agent, BeforeInference, OnBusy, Plugin, Registry, ScriptedModel, say


class Builds(Plugin):
    id = "builds"

    def after_inference(self, ctx: AfterInference) -> None:
        if ctx.response.text == "The build has started.":
            ctx.hold("build", "the build")

    def before_inference(self, ctx: BeforeInference) -> None:
        if ctx.messages[-1].text == "It is built.":
            ctx.release("build")


async def test_a_held_run_reads_a_message_and_ends_when_its_work_is_released_b410(
    serving: Serving, thread_id: str
) -> None:
    model = ScriptedModel([say("The build has started.")], when={"It is built": [say("The build is done.")]})
    registry = Registry(agents=[Agent(id="a", plugins=[Builds()])], models={"default": model})
    async with serving(registry) as client:
        await client.start("a", "Build it.", thread_id=thread_id)
        async for record in client.watch(thread_id):
            if record.event.event_type == "run_finish":
                break
        assert (await client.status(thread_id)).doing == "held open for the build"
        await client.send(thread_id, "It is built.", on_busy=OnBusy.ENQUEUE)
        result = await client.result(thread_id)
    assert (result.status_reason, result.response, result.steps) == ("natural", "The build is done.", 2)
