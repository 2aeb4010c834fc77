"""What Wakeful's errors mean to an A2A client."""

from collections.abc import Iterator
from contextlib import contextmanager

from a2a.utils.errors import A2AError, InternalError, InvalidParamsError, TaskNotFoundError
from temporalio.service import RPCError

from wakeful.contract.errors import CallerError, ThreadNotFound, WakefulError


@contextmanager
def translating() -> Iterator[None]:
    """Raise Wakeful's and Temporal's errors as those of the protocol."""
    try:
        yield
    except A2AError:
        raise
    except ThreadNotFound as error:
        raise TaskNotFoundError(str(error)) from error
    except CallerError as error:
        raise InvalidParamsError(str(error)) from error
    except WakefulError as error:
        raise InternalError(str(error)) from error
    except RPCError as error:
        raise InternalError(f"Temporal failed: {error.message}") from error
