"""The commands of `wakeful`, one file each.

A module imports at its top only what its `--help` needs: typer, the shared options and the standard library. Its
functions import the rest, because Temporal's client and pydantic's models take most of a second.
"""
