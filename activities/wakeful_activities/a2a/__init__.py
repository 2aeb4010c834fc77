"""Remote agents: calls of services that speak A2A. `service`, `snapshots` and `sdk_errors` import `a2a`."""
