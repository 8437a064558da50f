"""Errors on the wire: which status each code has, and RFC 9457 problem documents."""

from typing import Any

import msgspec

from inbox import errors
from inbox.errors import Problem

TYPE = "application/problem+json"

STATUS = {
    errors.InvalidJson: 400,
    errors.InvalidCursor: 400,
    errors.ReservedName: 403,
    errors.SenderMismatch: 403,
    errors.ForeignRequest: 403,
    errors.NotYours: 403,
    errors.NotFound: 404,
    errors.MessageNotFound: 404,
    errors.TaskNotFound: 404,
    errors.AgentNotFound: 404,
    errors.InboxNotFound: 404,
    errors.ServiceNotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.NameTaken: 409,
    errors.NameDiffersInCase: 409,
    errors.AgentRetired: 409,
    errors.TaskClosed: 409,
    errors.MessageExpired: 409,
    errors.MessageDead: 409,
    errors.LeaseLost: 409,
    errors.NotDead: 409,
    errors.Loop: 409,
    errors.ServiceClosed: 409,
    errors.BodyTooLarge: 413,
    errors.UnsupportedEncoding: 415,
    errors.InvalidRequest: 422,
    errors.SenderRequired: 422,
    errors.DeliversToNobody: 422,
    errors.TaskRequired: 422,
    errors.ReplyNotFound: 422,
    errors.ReplyAcrossTasks: 422,
    errors.KeyReused: 422,
    errors.InternalError: 500,
    errors.StoreUnavailable: 503,
    errors.StoreBusy: 503,
    errors.OutcomeUnknown: 503,
}


class Document(msgspec.Struct, omit_defaults=True):
    """A problem document."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool
    hint: str
    request_id: str
    errors: list[dict[str, str]] = []


Wire = tuple[int, list[tuple[str, str]], bytes]  # status, headers, body


def encoded(payload: Any) -> bytes:
    """A payload as it goes out: bytes as they are, all else as a line of JSON."""
    return payload if isinstance(payload, bytes) else msgspec.json.encode(payload) + b"\n"


def document(problem: Problem, request_id: str) -> Wire:
    """Status, headers and body of a problem."""
    status = STATUS[type(problem)]
    made = Document(
        # A name for the kind of problem, not a place on the web: docs/protocol.md lists them.
        type=f"urn:taskpost:problem:{problem.code}",
        title=problem.title,
        status=status,
        detail=problem.detail,
        code=problem.code,
        retryable=problem.retryable,
        hint=problem.hint,
        request_id=request_id,
        errors=problem.errors,
    )
    headers = [("Content-Type", TYPE)]
    if problem.retry_after is not None:
        headers.append(("Retry-After", str(problem.retry_after)))
    return status, headers, encoded(made)
