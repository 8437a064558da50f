"""Which operations have which headers, beside those that all have."""

REQUEST = {
    "sendMessage": ("Idempotency-Key", "Prefer"),
    "sendMessages": ("Idempotency-Key",),
    "pollInbox": ("If-None-Match", "Prefer"),
    "listRequests": ("If-None-Match", "Prefer"),
    "requestService": ("Idempotency-Key", "Prefer"),
    "claimMessages": ("Prefer",),
    "claimRequests": ("Prefer",),
    "readHistory": ("Prefer",),
}
ANSWER = {
    "registerAgent": {200: ("Location",), 201: ("Location",)},
    "sendMessage": {
        200: ("Location", "Idempotency-Replayed", "Retry-After"),
        201: ("Location",),
        202: ("Location", "Idempotency-Replayed", "Retry-After"),
    },
    "sendMessages": {200: ("Idempotency-Replayed",)},
    "pollInbox": {
        200: ("ETag", "Cache-Control", "Retry-After"),
        304: ("ETag", "Cache-Control", "Retry-After"),
    },
    "readHistory": {200: ("Retry-After",)},
    "claimMessages": {200: ("Retry-After",)},
    "claimRequests": {200: ("Retry-After",)},
    "declareService": {200: ("Location",), 201: ("Location",)},
}
ANSWER["requestService"] = ANSWER["sendMessage"]
ANSWER["listRequests"] = ANSWER["pollInbox"]
