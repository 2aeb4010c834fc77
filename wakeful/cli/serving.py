"""What `wakeful dev` and `wakeful worker` share: the registry that their options name, reloads, and when to stop."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from wakeful.cli.options import DEMO_APP
from wakeful.contract.errors import ConfigurationError
from wakeful.registry.registry import Registry
from wakeful.registry.reloading import Refused, ReloadOutcome, describe_outcome
from wakeful.worker import load_registry


def registry_of(app: str | None, agents: Sequence[Path] | None) -> Registry:
    """The registry of `--app` and `--agents`; the demo's without them."""
    app = DEMO_APP if is_demo(app, agents) else app or None
    if app is not None:
        _check_app(app)
    try:
        return load_registry(app, agent_files=agents or ())
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise ConfigurationError([f"--app {app!r}: syntax error in {where}: {error.msg}"]) from error


def _check_app(app: str) -> None:
    """Reject what does not name a registry, and a file that does not exist: its import would miss a module instead."""
    module, _, attribute = app.partition(":")
    if not (module and attribute):
        forms = "module:registry or path/to/file.py:registry"
        example = f"{app.rstrip(':')}:registry" if module else "myapp:registry"
        raise ConfigurationError([f"--app {app!r} must be written as {forms}, for example {example}"])
    if module.endswith(".py") and not Path(module).is_file():
        raise ConfigurationError([f"--app {app!r}: the file {module!r} does not exist"])


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
