"""What the server itself answers: the codes, and the problem document of each.

The application's own errors are in ``problems``; those that both know read the same.
"""

import json
import secrets

UNFORESEEN = "Something went wrong that nobody had foreseen."


class Refusal(Exception):
    """A request that the server refuses: ``Refusal(code, detail)``, with a code of ``PROBLEMS``."""


# code: status, title, retryable, hint
PROBLEMS: dict[str, tuple[str, str, bool, str]] = {
    "bad_request": (
        "400 Bad Request",
        "The request is not HTTP/1.1",
        False,
        "Mend what `detail` names; percent-encode what is not ASCII in a path or query.",
    ),
    "request_timeout": (
        "408 Request Timeout",
        "The request took too long to arrive",
        True,
        "Send the whole request at once.",
    ),
    "body_too_large": (
        "413 Content Too Large",
        "The body is too large",
        False,
        "Keep large things elsewhere and send where they are.",
    ),
    "uri_too_long": (
        "414 URI Too Long",
        "The request line is too long",
        False,
        "Send what is long in the body.",
    ),
    "expectation_failed": (
        "417 Expectation Failed",
        "The expectation cannot be met",
        False,
        "Leave Expect out, or send `Expect: 100-continue`.",
    ),
    "headers_too_large": (
        "431 Request Header Fields Too Large",
        "The headers are too many or too large",
        False,
        "Send fewer and smaller headers.",
    ),
    "internal_error": (
        "500 Internal Server Error",
        "The service made a mistake",
        False,
        "Report it with the request_id; the log has the rest.",
    ),
    "store_busy": (
        "503 Service Unavailable",
        "The database is busy",
        True,
        "Nothing was written. Try again after the seconds in Retry-After, with the same key.",
    ),
    "outcome_unknown": (
        "503 Service Unavailable",
        "It is not known whether this was done",
        True,
        "Send it again with the same idempotency key: then it is done once.",
    ),
    "http_version_not_supported": (
        "505 HTTP Version Not Supported",
        "The version of HTTP is not supported",
        False,
        "Speak HTTP/1.1.",
    ),
}


def problem(
    code: str, detail: str, request_id: str | None
) -> tuple[str, list[tuple[str, str]], bytes]:
    """Status, headers and body of a problem document; without an id it gets one."""
    status, title, retryable, hint = PROBLEMS[code]
    request_id = request_id or secrets.token_hex(8)
    document = {
        "type": f"urn:taskpost:problem:{code}",
        "title": title,
        "status": int(status[:3]),
        "detail": detail,
        "code": code,
        "retryable": retryable,
        "hint": hint,
        "request_id": request_id,
    }
    headers = [("Content-Type", "application/problem+json"), ("X-Request-Id", request_id)]
    if status.startswith("503"):
        headers.append(("Retry-After", "1"))
    return status, headers, json.dumps(document).encode() + b"\n"
