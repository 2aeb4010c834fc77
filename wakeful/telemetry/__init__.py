"""What a worker shows of itself and its runs: log lines, health, traces and metrics."""
