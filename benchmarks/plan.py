"""How much is measured: the full plan, and a quick one."""

from dataclasses import dataclass

KB = 1024


@dataclass(frozen=True)
class Plan:
    """Lengths, sizes and repeats of every measurement."""

    repeat: int = 9
    step_steps: int = 50
    long_steps: int = 400
    sizes: tuple[int, ...] = (1 * KB, 10 * KB)
    lengths: tuple[int, ...] = (5, 20, 50, 100, 400)
    whole: tuple[tuple[int, int], ...] = (
        (5, KB),
        (20, KB),
        (50, KB),
        (100, KB),
        (5, 10 * KB),
        (20, 10 * KB),
        (50, 10 * KB),
    )
    """Lengths and sizes at which a run that passes the whole conversation stays within the server's limits."""
    replay_steps: int = 100
    rebuild_steps: int = 800
    rebuild_size: int = 10 * KB
    concurrent: tuple[int, ...] = (1, 16, 64)
    concurrent_steps: int = 5
    decisions: int = 3
    """Decisions per repeat."""
    kills: int = 5
    """Streams whose worker the benchmark kills."""
    watchers: tuple[int, ...] = (0, 1, 50)
    watched: int = 3
    """Runs for each number of watchers."""
    viewers: tuple[int, ...] = (0, 1, 3)
    """Viewers of Temporal's own streams, each of which adds to history."""
    answers: int = 5
    """Answers whose token lag is measured."""
    pause: float = 0.015
    """Seconds between the tokens of a watched answer."""
    starts: int = 5
    """Starts per command."""
    schedules: int = 10
    """Simulated schedules per repeat."""
    sleeping: tuple[int, ...] = (0, 100, 1_000)
    """Sub-agents that are asleep while a fleet is idle."""
    fleets: tuple[int, ...] = (1, 4)
    """Workers."""
    idle_seconds: float = 60.0
    fleet_kills: int = 4
    runs_per_kill: int = 10
    """Sleeping runs that a killed worker has in its cache."""


QUICK = Plan(
    repeat=2,
    step_steps=10,
    long_steps=30,
    sizes=(1 * KB,),
    lengths=(5, 10, 20),
    whole=((5, KB), (10, KB), (20, KB)),
    replay_steps=20,
    rebuild_steps=40,
    rebuild_size=100 * KB,
    concurrent=(1, 8),
    concurrent_steps=3,
    decisions=2,
    kills=0,
    watched=1,
    answers=1,
    pause=0.005,
    starts=2,
    schedules=3,
    sleeping=(20,),
    fleets=(1, 2),
    idle_seconds=10.0,
    fleet_kills=1,
    runs_per_kill=3,
)
