"""A conversation at a terminal: a prompt, the turn that follows, and the prompt again."""

import asyncio
import shlex
import sys
import uuid

from wakeful.cli.chat.chat_turn import ChatTurns, LeftTurn
from wakeful.cli.chat.pipe import Send
from wakeful.cli.chat.prompt import Dismissed, LeftPrompt, Prompts
from wakeful.cli.chat.resume import ResumePoint, past_message_lines, read_resume_point
from wakeful.cli.chat.slash_commands import SLASH_COMMANDS, run_slash_command
from wakeful.cli.terminal.live_view import LiveView
from wakeful.cli.terminal.screen import Screen
from wakeful.client.client import Client
from wakeful.contract.errors import WakefulError
from wakeful.contract.runs import ThreadMode


class Conversation:
    """One person and one agent, on one thread at a time."""

    def __init__(self, client: Client, agent_id: str, *, send: Send, options: list[str]) -> None:
        """`options` are those with which the command continues the conversation."""
        self.client = client
        self._send = send
        self.view = LiveView(Screen.of(sys.stdout), folds=True, asks=True)
        self.thread_id = ""
        self._agent_id = agent_id
        self._options = options
        self._prompts = Prompts(list(SLASH_COMMANDS), colours=self.view.screen.colours.on)
        self._turns: ChatTurns | None = None
        self._thread_exists = False
        self._is_left = False

    async def talk(self, thread_id: str | None) -> None:
        """Talk until the person leaves."""
        point = await read_resume_point(self.client, thread_id) if thread_id else ResumePoint()
        turns = self._open_thread(thread_id or f"{self._agent_id}-{uuid.uuid4().hex[:8]}", point)
        try:
            while not self._is_left:
                turns = self._turns or turns
                if turns.has_more:
                    await turns.follow()
                else:
                    await self._prompt(turns)
        except LeftPrompt:
            pass
        except LeftTurn:
            self.view.line("· the run is being cancelled")
        finally:
            turns.close()
            self._print_goodbye()

    def leave(self) -> None:
        self._is_left = True

    async def fork(self, step: int, message: str | None) -> None:
        """Fork the thread after a step, and continue on the fork."""
        forked = await self.client.fork(self.thread_id, at=step, message=message, mode=ThreadMode.THREAD, live=True)
        if self._turns is not None:
            self._turns.close()
        self.view.line(f"⇒ thread {forked}, from step {step} of {self.thread_id}")
        self._open_thread(forked, await read_resume_point(self.client, forked))

    def _open_thread(self, thread_id: str, point: ResumePoint) -> ChatTurns:
        self.thread_id, self._thread_exists = thread_id, point.exists
        self._turns = ChatTurns(
            self.client, thread_id, after=point.after, is_busy=point.is_busy, view=self.view, prompts=self._prompts
        )
        screen = self.view.screen
        screen.line(screen.colours.dim(f"{self._agent_id} on thread {thread_id}{'' if point.exists else ' (new)'}"))
        for message in point.messages:
            for line in past_message_lines(message, screen.colours):
                screen.line(line)
        if point.is_open:
            self._turns.open()
        return self._turns

    async def _prompt(self, turns: ChatTurns) -> None:
        """Read one message or slash command, unless something happens on the thread first."""
        self.view.screen.gap()
        listening: list[asyncio.Task[None]] = []

        def listen() -> None:
            if self._thread_exists:
                listening.append(asyncio.create_task(turns.listen()))

        try:
            typed = await self._prompts.message(once_open=listen)
        except Dismissed:
            return
        finally:
            await self._stop(listening)
        self.view.screen.reacquire()
        try:
            if typed.startswith("/"):
                await run_slash_command(self, typed.strip())
            else:
                await self._send(self.thread_id, typed.strip())
                self._thread_exists = True
                turns.expect_run()
        except WakefulError as error:
            self.view.line(f"! {error}")

    async def _stop(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(error, WakefulError):
                self.view.line(f"! {error}")

    def _print_goodbye(self) -> None:
        self.view.release()
        if self._thread_exists:
            words = ["wakeful", "chat", self._agent_id, "--thread", self.thread_id, *self._options]
            self.view.line(self.view.screen.colours.dim(f"the thread stays; continue with: {shlex.join(words)}"))
