"""What `wakeful dev` and `wakeful worker` share: the registry that their options name, reloads, and when to stop."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from wakeful.cli.options import DEMO_APP
from wakeful.registry.registry import Registry
from wakeful.registry.reloading import Refused, ReloadOutcome, describe_outcome
from wakeful.worker import load_registry


def registry_of(app: str | None, agents: Sequence[Path] | None) -> Registry:
    """The registry of `--app` and `--agents`; the demo's without them."""
    return load_registry(DEMO_APP if is_demo(app, agents) else app or None, agent_files=agents or ())


def is_demo(app: str | None, agents: Sequence[Path] | None) -> bool:
    """Whether only the demo's agents are served."""
    return app == DEMO_APP or not (app or agents)


def print_reload(outcome: ReloadOutcome) -> None:
    print(describe_outcome(outcome), file=sys.stderr if isinstance(outcome, Refused) else sys.stdout, flush=True)


def stop_on_signals() -> asyncio.Event:
    """An event that Ctrl-C and SIGTERM set; a second signal ends the process as usual."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(signum: signal.Signals) -> None:
        loop.remove_signal_handler(signum)
        stop.set()

    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, on_signal, signum)
    return stop
