"""The first file of docs/foreign-tools.md."""

from wakeful import Registry

registry: Registry
