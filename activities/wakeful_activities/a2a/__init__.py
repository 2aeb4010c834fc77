"""A2A: calls of remote agents, and the push notifications of tasks that we serve.

Only `service`, `snapshots` and `sdk_errors` import `a2a` when they are imported.
"""
