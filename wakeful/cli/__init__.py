"""The `wakeful` command: a thin layer over the client, the connection and the worker. It prints; it decides nothing."""
