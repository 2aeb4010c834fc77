"""What failed calls to Temporal become: the messages are those of the real server."""

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.service import RPCError, RPCStatusCode

from wakeful.contract.errors import CallerError, ConnectionFailed, ThreadNotFound
from wakeful.rpc_errors import error_of


@pytest.mark.parametrize(
    ("status", "message", "kind", "says"),
    [
        (RPCStatusCode.NOT_FOUND, "workflow not found for ID: update", ThreadNotFound, "no thread 't1' in this"),
        (RPCStatusCode.NOT_FOUND, "workflow execution already completed", CallerError, "the run on thread 't1' has"),
        (RPCStatusCode.UNAVAILABLE, "tcp connect error", ConnectionFailed, "Temporal cannot be reached: tcp connect"),
    ],
)
def test_a_status_and_its_message_tell_what_failed(
    status: RPCStatusCode, message: str, kind: type[Exception], says: str
) -> None:
    error = error_of(RPCError(message, status, b""), "t1")
    assert type(error) is kind
    assert str(error).startswith(says)


def test_a_missing_namespace_is_not_a_missing_thread() -> None:
    detail = AnyMessage()
    detail.Pack(NamespaceNotFoundFailure(namespace="nope"))
    raw = GrpcStatus(code=5, details=[detail]).SerializeToString()
    error = error_of(RPCError("Namespace nope is not found.", RPCStatusCode.NOT_FOUND, raw), "t1")
    assert (type(error), str(error)) == (ConnectionFailed, "namespace 'nope' does not exist")
