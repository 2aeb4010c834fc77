"""Raise in a test what the models of its registry did not expect, wherever in the worker that happened."""

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from wakeful.authoring.unexpected_call import UnexpectedModelCall
from wakeful.contract.runs import Errored, RunResult
from wakeful.registry.registry import Registry

HEADLINE_CHARACTERS = 400
"""Of an error, by which a run's result is recognized: Temporal keeps only the beginning of a long message."""


@runtime_checkable
class Watched(Protocol):
    """A model that remembers which of its calls a test did not expect."""

    @property
    def unexpected(self) -> tuple[UnexpectedModelCall, ...]: ...


class UnexpectedCalls:
    """The unexpected calls of a registry's models since this was made.

    As a context manager, it raises one that the body has not raised. If the body fails otherwise, it adds them as
    notes, because they are the likely cause.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._before = set(self._all())
        self._raised = set[UnexpectedModelCall]()

    def raise_cause(self, result: RunResult) -> None:
        """Raise the unexpected call that ended the run, if one did."""
        if not isinstance(result.termination, Errored):
            return
        for error in self._new():
            if error.headline[:HEADLINE_CHARACTERS] in result.termination.value:
                self._raised.add(error)
                raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, raised: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        unseen = [error for error in self._new() if error not in self._raised]
        if raised is None and unseen:
            raise unseen[0]
        for error in unseen:
            if raised is not None and error is not raised:
                raised.add_note(f"unexpected model call: {error}")

    def _new(self) -> list[UnexpectedModelCall]:
        return [error for error in self._all() if error not in self._before]

    def _all(self) -> Iterator[UnexpectedModelCall]:
        for source in (*self._registry.models.values(), *self._registry.providers.values()):
            if isinstance(source, Watched) and not isinstance(source, type):
                yield from source.unexpected
