"""Other agent plugins for Temporal on the same workload: `python -m benchmarks.peers`. See docs/benchmarks.md."""
