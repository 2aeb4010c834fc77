"""Check what users write before the model reads it, and what the model answers before it is recorded.

It fails closed: a check that raises fails the run.
"""

import base64
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from wakeful import AfterInference, BeforeInference, Message, Plugin, Role, StateKey, TextBlock
from wakeful.plugins.guardrails.checks import AllowText, BlockText, GuardRule, RewriteText, TextCheck, TextRuling, judge

RETRIES: StateKey[int] = StateKey("guardrails.retries", int, merge="add", default=0)
"""How often the run has retried a blocked answer."""

WITHHELD: StateKey[list[str]] = StateKey("guardrails.withheld", list[str], scope="thread", merge="union", default=[])
"""Ids of messages that blocked a run. They stay in the transcript, but later runs do not send them to the model."""

PLACEHOLDER = TextBlock(text="[withheld by a guardrail]")
"""What the model reads instead of a withheld message."""

UNREADABLE = BlockText("a text document cannot be decoded")

RETRY = "Your last answer was not accepted: {reason}. It was discarded. Answer again in a way that avoids this."

CACHED_RULINGS = 2048
"""How many rulings a worker caches: every request checks the whole conversation again."""


class GuardrailsSettings(BaseModel):
    input: tuple[GuardRule, ...] = ()
    """Rules for what users write, after the plugin's own checks."""
    output: tuple[GuardRule, ...] = ()
    """Rules for what the model answers, after the plugin's own checks."""
    max_retries: int = Field(default=1, ge=0)
    """How often in a run a blocked answer is retried before the run ends as blocked."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            input: Sequence[GuardRule] = ...,
            output: Sequence[GuardRule] = ...,
            max_retries: int = ...,
        ) -> None: ...


class Guardrails(Plugin[GuardrailsSettings]):
    """Checks of input and output.

    Args:
        input: checks of every user and system message, and of text documents in them. A worker checks the same text
            once.
        output: checks of the text of every answer.
    """

    id = "guardrails"
    state = (RETRIES, WITHHELD)
    on_error = "fail"
    timeout = 30.0

    def __init__(self, *, input: Sequence[TextCheck] = (), output: Sequence[TextCheck] = ()) -> None:
        self.input = tuple(input)
        self.output = tuple(output)
        self._rulings: OrderedDict[tuple[str, tuple[GuardRule, ...]], TextRuling] = OrderedDict()

    async def before_inference(self, ctx: BeforeInference[GuardrailsSettings]) -> None:
        withheld = ctx.state.get(WITHHELD)
        shown: list[Message] = []
        blocked: dict[str, str] = {}
        for message in ctx.messages:
            if message.id in withheld:
                shown.append(message.model_copy(update={"content": (PLACEHOLDER,)}))
                continue
            match await self._guarded(message, ctx.settings.input):
                case BlockText(reason=reason):
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
            case AllowText():
                return
            case RewriteText(text=text):
                ctx.rewrite(text)
            case BlockText(reason=reason):
                ctx.rewrite("")  # neither events nor the run's result may have it
                if ctx.state.get(RETRIES) >= ctx.settings.max_retries:
                    ctx.block(reason)
                    return
                ctx.state.add(RETRIES, 1)
                ctx.retry(RETRY.format(reason=reason))

    async def _guarded(self, message: Message, rules: tuple[GuardRule, ...]) -> Message | BlockText:
        """The message as the model may read it, with its text and its text documents checked."""
        # Only messages of a run have metadata: the runtime's own notes, such as our retry note, are not input.
        is_of_run = message.metadata is not None or message.role not in (Role.USER, Role.SYSTEM)
        if is_of_run or not (self.input or rules):
            return message
        match await self._ruling(message.text, rules):
            case BlockText() as block:
                return block
            case RewriteText(text=text):
                message = _with_text(message, text)
            case AllowText():
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
                case BlockText() as block:
                    return block
                case RewriteText(text=text):
                    source = part.source.model_copy(update={"data": base64.b64encode(text.encode()).decode()})
                    content[index] = part.model_copy(update={"source": source})
                case AllowText():
                    pass
        return message.model_copy(update={"content": tuple(content)})

    async def _ruling(self, text: str, rules: tuple[GuardRule, ...]) -> TextRuling:
        if not text:
            return AllowText()
        key = (text, rules)
        if key not in self._rulings:
            self._rulings[key] = await judge(text, (*self.input, *rules))
            while len(self._rulings) > CACHED_RULINGS:
                self._rulings.popitem(last=False)
        return self._rulings[key]


def _is_text(media_type: str) -> bool:
    return media_type.strip().lower().startswith("text/")


def _with_text(message: Message, text: str) -> Message:
    """The message with its text replaced; images and other blocks stay."""
    others = tuple(block for block in message.content if not isinstance(block, TextBlock))
    return message.model_copy(update={"content": (TextBlock(text=text), *others)})
