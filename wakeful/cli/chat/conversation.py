"""A conversation at a terminal: a prompt, the turn that follows, and the prompt again."""

import asyncio
import sys
import uuid

from wakeful.cli.chat.chat_turn import LeftTurn, Turns
from wakeful.cli.chat.prompt import Dismissed, LeftPrompt, Prompts
from wakeful.cli.chat.questions import come_back
from wakeful.cli.chat.resume import Place, place_of, said_lines
from wakeful.cli.chat.slash_commands import COMMANDS, run_command
from wakeful.cli.terminal.live_view import Telling
from wakeful.cli.terminal.screen import Scroll
from wakeful.client.client import Client
from wakeful.contract.errors import WakefulError
from wakeful.contract.runs import ThreadMode


class Conversation:
    """One person and one agent, on one thread at a time."""

    def __init__(self, client: Client, agent_id: str, *, options: list[str]) -> None:
        """`options` are those that reach the same cluster again."""
        self.client = client
        self.telling = Telling(Scroll.of(sys.stdout), folds=True, asks=True)
        self.thread_id = ""
        self._agent_id = agent_id
        self._options = options
        self._prompts = Prompts(list(COMMANDS), colours=self.telling.scroll.colours.on)
        self._turns: Turns | None = None
        self._is_there = False
        self._is_left = False

    async def talk(self, thread_id: str | None) -> None:
        """Talk until whoever sits there leaves."""
        place = await place_of(self.client, thread_id) if thread_id else Place()
        turns = self._take_up(thread_id or f"{self._agent_id}-{uuid.uuid4().hex[:8]}", place)
        try:
            while not self._is_left:
                turns = self._turns or turns
                if turns.has_something:
                    await turns.follow()
                else:
                    await self._prompt(turns)
        except LeftPrompt:
            pass
        except LeftTurn:
            self.telling.line("· the run is being cancelled")
        finally:
            turns.close()
            self._say_goodbye()

    def leave(self) -> None:
        self._is_left = True

    async def fork(self, step: int, message: str | None) -> None:
        """Go on from a step of this thread, on another."""
        forked = await self.client.fork(self.thread_id, at=step, message=message, mode=ThreadMode.THREAD)
        if self._turns is not None:
            self._turns.close()
        self.telling.line(f"⇒ thread {forked}, from step {step} of {self.thread_id}")
        self._take_up(forked, await place_of(self.client, forked))

    def _take_up(self, thread_id: str, place: Place) -> Turns:
        self.thread_id, self._is_there = thread_id, place.is_there
        self._turns = Turns(
            self.client, thread_id, after=place.after, busy=place.busy, telling=self.telling, prompts=self._prompts
        )
        scroll = self.telling.scroll
        scroll.line(scroll.colours.dim(f"{self._agent_id} on thread {thread_id}{'' if place.is_there else ' (new)'}"))
        for message in place.messages:
            for line in said_lines(message, scroll.colours):
                scroll.line(line)
        if place.is_open:
            self._turns.open()
        return self._turns

    async def _prompt(self, turns: Turns) -> None:
        """Hear one message or command; something that happens on the thread comes first."""
        self.telling.scroll.gap()
        listening: list[asyncio.Task[None]] = []

        def listen() -> None:
            if self._is_there:
                listening.append(asyncio.create_task(turns.listen()))

        try:
            typed = await self._prompts.message(once_open=listen)
        except Dismissed:
            return
        finally:
            await self._stopped(listening)
        self.telling.scroll.touched()
        try:
            if typed.startswith("/"):
                await run_command(self, typed.strip())
            else:
                await self.client.send(self.thread_id, typed.strip(), agent_id=self._agent_id)
                self._is_there = True
                turns.expect()
        except WakefulError as error:
            self.telling.line(f"! {error}")

    async def _stopped(self, listening: list[asyncio.Task[None]]) -> None:
        for task in listening:
            task.cancel()
        for trouble in await asyncio.gather(*listening, return_exceptions=True):
            if isinstance(trouble, WakefulError):
                self.telling.line(f"! {trouble}")

    def _say_goodbye(self) -> None:
        self.telling.rest()
        if self._is_there:
            back = come_back(self._agent_id, self.thread_id, self._options)
            self.telling.line(self.telling.scroll.colours.dim(f"the thread stays; come back with: {back}"))
