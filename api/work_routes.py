"""The routes of work: claims, leases, dead letters, services. ``api.routes`` takes them in."""

from api import schemas, shapes, work_schemas, work_shapes
from api.route import SENDING, Route
from api.views import claims, services
from inbox.errors import (
    InvalidCursor,
    LeaseLost,
    MessageDead,
    MessageExpired,
    MessageNotFound,
    NameDiffersInCase,
    NotDead,
    NotYours,
    ReservedName,
    SenderRequired,
    ServiceClosed,
    ServiceNotFound,
)

HOLDING = (LeaseLost, NotYours, MessageNotFound, MessageExpired, MessageDead, NameDiffersInCase)
BURIED = (NotDead, NotYours, MessageNotFound, NameDiffersInCase)

WORK = (
    Route(
        "POST", "/agents/{agent}/inbox/claim", claims.claim, "claimMessages",
        "Claim messages: nobody else gets them until the lease ends",
        {200: (work_shapes.Claim, "What was claimed; an empty list when there is nothing.")},
        query=work_schemas.ClaimQuery, body=work_schemas.ClaimMessages,
        problems=(NameDiffersInCase,), own=True, hot=True, takes=True,
    ),
    Route(
        "POST", "/agents/{agent}/inbox/redrive", claims.redrive_all, "redriveMessages",
        "Let the dead letters of an inbox be claimed again",
        {200: (work_shapes.Redriven, "How many.")},
        body=schemas.Caller, problems=(NameDiffersInCase,), own=True,
    ),
    Route(
        "POST", "/inbox/messages/{message}/extend", claims.extend, "extendLease",
        "Hold a claimed message for longer",
        {200: (shapes.Message, "The message, held until then.")},
        body=work_schemas.ExtendLease, problems=HOLDING, hot=True,
    ),
    Route(
        "POST", "/inbox/messages/{message}/release", claims.release, "releaseMessage",
        "Give a claimed message back",
        {200: (shapes.Message, "The message; dead, if that was its last attempt.")},
        body=work_schemas.ReleaseMessage, problems=HOLDING,
    ),
    Route(
        "POST", "/inbox/messages/{message}/redrive", claims.redrive, "redriveMessage",
        "Let a dead letter be claimed again, with its attempts counted anew",
        {200: (shapes.Message, "The message, waiting again.")},
        body=schemas.Caller, problems=BURIED,
    ),
    Route(
        "POST", "/inbox/messages/{message}/discard", claims.discard, "discardMessage",
        "Be done with a dead letter",
        {200: (shapes.Message, "The message, acknowledged.")},
        body=schemas.Caller, problems=BURIED,
    ),
    Route(
        "GET", "/services", services.listed, "listServices", "List the services, by name",
        {200: (work_shapes.ServicePage, "A page of services.")},
        query=work_schemas.ServicesQuery, problems=(InvalidCursor, NameDiffersInCase),
    ),
    Route(
        "GET", "/services/{service}", services.read, "readService",
        "Read one service: what waits, what is in work, who works",
        {200: (work_shapes.Service, "The service.")},
        problems=(ServiceNotFound, NameDiffersInCase),
    ),
    Route(
        "POST", "/services/{service}", services.declare, "declareService",
        "Make a service, open it again, or change how it is run",
        {
            201: (work_shapes.Service, "A new service."),
            200: (work_shapes.Service, "It was there already."),
        },
        body=work_schemas.DeclareService, problems=(NameDiffersInCase, ServiceClosed),
    ),
    Route(
        "POST", "/services/{service}/requests", services.request, "requestService",
        "Send a request to a service; the first worker that is free takes it",
        {
            201: (shapes.Message, "The message; it is committed."),
            200: (
                shapes.Message,
                "The message, sent before with the same key. With `wait`: what came back for it.",
            ),
            202: (shapes.Message, "The message; it is committed, and nothing came back in time."),
        },
        query=schemas.SendQuery, body=work_schemas.ServiceRequest,
        problems=(*SENDING, ServiceClosed),
    ),
    Route(
        "GET", "/services/{service}/requests", services.requests, "listRequests",
        "Read what lies in the inbox of a service; changes nothing",
        {
            200: (shapes.MessagePage, "A page of messages."),
            304: (None, "Nothing has changed since the ETag in If-None-Match."),
        },
        query=work_schemas.ServiceInboxQuery,
        problems=(InvalidCursor, NotYours, ServiceNotFound, NameDiffersInCase),
    ),
    Route(
        "POST", "/services/{service}/claim", services.claim, "claimRequests",
        "Claim requests of a service as one of its workers",
        {200: (work_shapes.Claim, "What was claimed; an empty list when there is nothing.")},
        query=work_schemas.ClaimQuery, body=work_schemas.ClaimMessages,
        problems=(SenderRequired, ReservedName, ServiceClosed, NameDiffersInCase),
        hot=True, takes=True,
    ),
    Route(
        "POST", "/services/{service}/workers", services.work, "registerWorker",
        "Say that you work for a service, and what you are doing",
        {200: (work_shapes.Worker, "The worker.")},
        body=work_schemas.RegisterWorker,
        problems=(SenderRequired, ReservedName, ServiceClosed, NameDiffersInCase),
    ),
    Route(
        "POST", "/services/{service}/redrive", services.redrive, "redriveRequests",
        "Let the dead letters of a service be claimed again",
        {200: (work_shapes.Redriven, "How many.")},
        body=schemas.Caller, problems=(NotYours, ServiceNotFound, NameDiffersInCase),
    ),
    Route(
        "POST", "/services/{service}/close", services.close, "closeService",
        "Close a service: what waits for it ends, and the askers are told",
        {200: (work_shapes.Service, "The service, closed.")},
        body=schemas.Caller, problems=(NotYours, ServiceNotFound, NameDiffersInCase),
    ),
)  # fmt: skip
