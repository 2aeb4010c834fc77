"""Guard a conversation: what users say before the model reads it, and what the model says before it counts.

A guard that fails must not let anything pass, so a check that raises fails the run.
"""

import base64
from collections import OrderedDict
from collections.abc import Sequence

from pydantic import BaseModel, Field

from wakeful import AfterInference, BeforeInference, Message, Plugin, Role, StateKey, TextBlock
from wakeful.plugins.guardrails.checks import Allow, Block, Check, GuardRule, Rewrite, Ruling, judge

RETRIES: StateKey[int] = StateKey("guardrails.retries", int, merge="add", default=0)
"""How often the run has been asked for another answer."""

WITHHELD: StateKey[list[str]] = StateKey("guardrails.withheld", list[str], scope="thread", merge="union", default=[])
"""Ids of messages that have blocked a run. They stay in the transcript, and no model of a later run reads them."""

INSTEAD = TextBlock(text="[withheld by a guardrail]")
"""What a model is shown of a message that is withheld."""

UNREADABLE = Block("a text document cannot be read")

REMEMBERED = 2048
"""How many texts' rulings a worker keeps: every request shows the whole conversation again."""


class GuardrailsSettings(BaseModel):
    input: tuple[GuardRule, ...] = ()
    """Rules for what users say, after the plugin's own checks."""
    output: tuple[GuardRule, ...] = ()
    """Rules for what the model says, after the plugin's own checks."""
    max_retries: int = Field(default=1, ge=0)
    """How often in a run the model is asked for another answer before the run is blocked."""


class Guardrails(Plugin[GuardrailsSettings]):
    """Checks of input and output.

    Args:
        input: checks of every message of users and of the system, and of text documents in them. The same text is not
            checked twice on one worker.
        output: checks of every text that the model answers with.
    """

    id = "guardrails"
    state = (RETRIES, WITHHELD)
    on_error = "fail"
    timeout = 30.0

    def __init__(self, *, input: Sequence[Check] = (), output: Sequence[Check] = ()) -> None:
        self.input = tuple(input)
        self.output = tuple(output)
        self._rulings: OrderedDict[tuple[str, tuple[GuardRule, ...]], Ruling] = OrderedDict()

    async def before_inference(self, ctx: BeforeInference[GuardrailsSettings]) -> None:
        withheld = ctx.state.get(WITHHELD)
        shown: list[Message] = []
        blocked: dict[str, str] = {}
        for message in ctx.messages:
            if message.id in withheld:
                shown.append(message.model_copy(update={"content": (INSTEAD,)}))
                continue
            match await self._guarded(message, ctx.settings.input):
                case Block(reason=reason):
                    blocked[message.id] = reason
                case guarded:
                    shown.append(guarded)
        if blocked:
            ctx.state.union(WITHHELD, list(blocked))
            ctx.block(next(iter(blocked.values())))
        elif tuple(shown) != ctx.messages:
            ctx.rewrite_messages(tuple(shown))

    async def after_inference(self, ctx: AfterInference[GuardrailsSettings]) -> None:
        if not ctx.response.text:
            return
        match await judge(ctx.response.text, (*self.output, *ctx.settings.output)):
            case Allow():
                return
            case Rewrite(text=text):
                ctx.rewrite(text)
            case Block(reason=reason):
                ctx.rewrite("")  # whoever watches, and the run's result, must not have it either
                if ctx.state.get(RETRIES) >= ctx.settings.max_retries:
                    ctx.block(reason)
                    return
                ctx.state.add(RETRIES, 1)
                ctx.retry(f"Your answer was not accepted: {reason}. Answer again, without what was wrong with it.")

    async def _guarded(self, message: Message, rules: tuple[GuardRule, ...]) -> Message | Block:
        """The message as the model may read it: what it says, and what the text documents in it say."""
        # Only what the runtime itself said in a run has metadata: a note about an answer must not pass for input.
        is_said = message.metadata is not None or message.role not in (Role.USER, Role.SYSTEM)
        if is_said or not (self.input or rules):
            return message
        match await self._ruling(message.text, rules):
            case Block() as block:
                return block
            case Rewrite(text=text):
                message = _saying(message, text)
            case Allow():
                pass
        content = list(message.content)
        for index, part in enumerate(content):
            if part.type != "document" or part.source.type != "base64" or not _is_text(part.source.media_type):
                continue
            try:
                text = base64.b64decode(part.source.data, validate=True).decode()
            except ValueError:
                return UNREADABLE
            match await self._ruling(text, rules):
                case Block() as block:
                    return block
                case Rewrite(text=text):
                    source = part.source.model_copy(update={"data": base64.b64encode(text.encode()).decode()})
                    content[index] = part.model_copy(update={"source": source})
                case Allow():
                    pass
        return message.model_copy(update={"content": tuple(content)})

    async def _ruling(self, text: str, rules: tuple[GuardRule, ...]) -> Ruling:
        if not text:
            return Allow()
        key = (text, rules)
        if key not in self._rulings:
            self._rulings[key] = await judge(text, (*self.input, *rules))
            while len(self._rulings) > REMEMBERED:
                self._rulings.popitem(last=False)
        return self._rulings[key]


def _is_text(media_type: str) -> bool:
    return media_type.strip().lower().startswith("text/")


def _saying(message: Message, text: str) -> Message:
    """The message with this text in place of its own; pictures and the like stay where they are."""
    others = tuple(block for block in message.content if not isinstance(block, TextBlock))
    return message.model_copy(update={"content": (TextBlock(text=text), *others)})
