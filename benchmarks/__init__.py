"""What Wakeful costs, as ratios to a hand-written Temporal workflow: `python -m benchmarks`. See docs/benchmarks.md."""
