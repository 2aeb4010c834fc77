"""The targets, each judged from the results. A missed target is reported; it fails nothing."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.plan import KB
from benchmarks.results import Results, line, percentile
from benchmarks.startup import COMMAND_HELP, COMPLETION, HELP, SDK, STATUS
from benchmarks.workload import BARE, COMPLETE, LOCAL, STREAMED, WAKEFUL


@dataclass(frozen=True)
class Target:
    name: str
    figure: str
    met: bool | None
    """None if it was not measured."""

    def __str__(self) -> str:
        verdict = "not measured" if self.met is None else "met" if self.met else "MISSED"
        return f"{verdict:<13} {self.name}{f': {self.figure}' if self.figure else ''}"


def targets(results: Results) -> list[Target]:
    return [
        _events(results),
        *_linear(results),
        _bytes(results, KB, limit=1.5),
        _bytes(results, 10 * KB, limit=1.2),
        _finishes(results),
        _ratio(results, "step.time", WAKEFUL, "time per step <= 1.15x bare, regular tools", limit=1.15),
        _ratio(results, "step.time", LOCAL, "time per step <= 0.65x bare, local tools", limit=0.65),
        _ratio(results, "step.worker_cpu", WAKEFUL, "worker CPU per step <= 1.3x bare", limit=1.3),
        _replay(results),
        _reading(results),
        _rebuild(results),
        _wasted(results),
        _streaming(results),
        _watched(results),
        _lag(results),
        _tracing(results),
        _idle(results),
        _recovery(results, 50, limit=2.0),
        _recovery(results, 95, limit=6.0),
        *(_startup(results, command, limit=0.35) for command in (HELP, COMMAND_HELP, COMPLETION)),
        _startup(results, STATUS, limit=0.8),
    ]


def _events(results: Results) -> Target:
    name = "events per step equal to bare"
    slopes = {side: _slope(results, side) for side in (WAKEFUL, BARE)}
    wakeful, bare = slopes[WAKEFUL], slopes[BARE]
    if wakeful is None or bare is None:
        return Target(name, "", None)
    return Target(name, f"{wakeful:.2f} against {bare:.2f}", abs(wakeful - bare) < 0.1)


def _slope(results: Results, side: str) -> float | None:
    """Events per step between the two shortest runs, which do not continue as new."""
    points = results.points(side, KB)[:2]
    if len(points) < 2:
        return None
    return (points[1].events - points[0].events) / (points[1].steps - points[0].steps)


def _linear(results: Results) -> Iterator[Target]:
    for size in (KB, 10 * KB):
        name = f"history bytes linear in steps, R² > 0.99, {size // KB} KB results"
        points = [(float(point.steps), float(point.bytes)) for point in results.points(WAKEFUL, size)]
        if len(points) < 3:
            yield Target(name, "", None)
        else:
            r2 = line(points).r2
            yield Target(name, f"R² = {r2:.5f} over {len(points)} lengths", r2 > 0.99)


def _bytes(results: Results, size: int, *, limit: float) -> Target:
    name = f"history bytes <= {limit}x bare, 100 steps of {size // KB} KB"
    wakeful, bare = results.history(WAKEFUL, 100, size), results.history(BARE, 100, size)
    if wakeful is None or bare is None:
        return Target(name, "", None)
    ratio = wakeful.bytes / bare.bytes
    return Target(name, f"{ratio:.2f}x", ratio <= limit)


def _finishes(results: Results) -> Target:
    name = "400 steps of 10 KB finish"
    found = results.history(WAKEFUL, 400, 10 * KB)
    if found is None:
        return Target(name, "", None)
    return Target(name, f"{found.bytes / KB / KB:.1f} MB in {found.executions} execution(s)", True)


def _ratio(results: Results, key: str, side: str, name: str, *, limit: float) -> Target:
    ratios = results.series[key].ratios(side) if key in results.series else []
    if not ratios:
        return Target(name, "", None)
    return _judged(name, ratios, lambda ratio: f"{ratio:.2f}x", limit)


def _replay(results: Results) -> Target:
    name = "replay <= 7 ms per step"
    samples = results.series["replay"].samples.get(WAKEFUL) if "replay" in results.series else None
    return _judged(name, samples, lambda ms: f"{ms:.1f} ms", 7.0) if samples else Target(name, "", None)


def _reading(results: Results) -> Target:
    name = "a run is read from history in <= 1.5x the time of a worker's query, both by replay"
    reading = results.reading
    ratios = reading.multiples(reading.first_read) if reading is not None else []
    return _judged(name, ratios, lambda ratio: f"{ratio:.2f}x", 1.5) if ratios else Target(name, "", None)


def _rebuild(results: Results) -> Target:
    name = "an empty cache is filled from archives in <= 1x the time of reading every execution's history"
    ratios = results.rebuild.multiples if results.rebuild is not None else []
    return _judged(name, ratios, lambda ratio: f"{ratio:.2f}x", 1.0) if ratios else Target(name, "", None)


def _wasted(results: Results) -> Target:
    """Tokens after the last heartbeat are lost: 0.2 s of them, plus at most 0.2 s of throttling."""
    name = "tokens wasted per killed stream <= 0.25x bare"
    series = results.series.get("stream.wasted")
    if series is None:
        return Target(name, "", None)
    ratio = statistics.median(series.ratios(WAKEFUL))
    wakeful, bare = (_spread(series.samples[side], "{:.0f}".format) for side in (WAKEFUL, BARE))
    return Target(name, f"{ratio:.2f}x, {wakeful} against {bare}", ratio <= 0.25)


def _streaming(results: Results) -> Target:
    streamed, complete = results.answer(STREAMED), results.answer(COMPLETE)
    if streamed is None or complete is None:
        return Target("history added by streaming", "", None)
    size, events = streamed.bytes - complete.bytes, streamed.events - complete.events
    name = f"history added by streaming {streamed.tokens:,} tokens"
    return Target(name, f"{size} bytes, {events} events", size <= 0 and events <= 0)


def _watched(results: Results) -> Target:
    runs = results.watched_runs(WAKEFUL)
    if len(runs) < 2:
        return Target("history equal for every number of watchers", "", None)
    name = f"history equal with {', '.join(map(str, runs))} watchers"
    written = {watchers: {(run.events, run.bytes) for run in taken} for watchers, taken in runs.items()}
    if len(distinct := set.union(*written.values())) == 1:
        [(events, size)] = distinct
        return Target(name, f"{events} events, {size:,} bytes in all {sum(map(len, runs.values()))} runs", True)
    failed = sum(run.failed_tasks for taken in runs.values() for run in taken)
    figures = "; ".join(f"{watchers}: {sorted(found)}" for watchers, found in written.items())
    return Target(name, f"{figures}; {failed} workflow task(s) failed or timed out", False)


def _lag(results: Results) -> Target:
    name = "token lag p95 <= 500 ms, one watcher"
    series = results.series.get("watching.lag_p95")
    return (
        _judged(name, series.samples[WAKEFUL], lambda ms: f"{ms:.0f} ms", 500.0) if series else Target(name, "", None)
    )


def _tracing(results: Results) -> Target:
    name = "time per step with tracing <= 1.08x without"
    if results.tracing is None:
        return Target(name, "", None)
    return _judged(name, results.tracing.multiples, lambda ratio: f"{ratio:.2f}x", 1.08)


def _idle(results: Results) -> Target:
    """Whatever the number of workers and of sub-agents, there are three calls in about five seconds."""
    name = "calls of an idle fleet <= 1 per second"
    rates = [fleet.rate for fleet in results.idle_fleets]
    if not rates:
        return Target(name, "", None)
    return Target(name, f"{min(rates):.2f} to {max(rates):.2f} per second", max(rates) <= 1)


def _recovery(results: Results, percent: int, *, limit: float) -> Target:
    name = f"sleeping run of a killed worker, p{percent} <= {limit:.0f} s"
    if results.recovery is None or not results.recovery.sleeping:
        return Target(name, "", None)
    seconds = percentile(results.recovery.sleeping, percent)
    return Target(name, f"{seconds:.1f} s", seconds <= limit)


def _startup(results: Results, command: str, *, limit: float) -> Target:
    """Judged by the best start: other load on the machine can only add to it."""
    name = f"CPU of {command} <= {limit} s"
    startup, sdk = results.startup(command), results.startup(SDK)
    if startup is None or sdk is None:
        return Target(name, "", None)
    return Target(name, f"{startup.best:.2f} s, against {sdk.best:.2f} s for {SDK}", startup.best <= limit)


def _judged(name: str, samples: list[float], formatted: Callable[[float], str], limit: float) -> Target:
    return Target(name, _spread(samples, formatted), statistics.median(samples) <= limit)


def _spread(samples: list[float], formatted: Callable[[float], str]) -> str:
    return f"{formatted(statistics.median(samples))} ({formatted(min(samples))} to {formatted(max(samples))})"
