"""Remote agents: calls of services that speak the A2A protocol. Only `service.py` and `snapshots.py` import `a2a`."""
