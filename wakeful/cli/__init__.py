"""The `wakeful` command: a thin layer over the client, the connection and the worker. It prints; it decides nothing."""

from wakeful.cli.app import main

__all__ = ["main"]
