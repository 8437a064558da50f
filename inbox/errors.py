"""The errors of the rules: a stable code, what is wrong, and what to do next.

``api.problems`` gives each code its status. A subclass's docstring says when
it is raised; its ``hint`` is one line that an agent can act on.
"""

from inbox.problem import Problem as Problem  # the one name for all of them


class InvalidRequest(Problem):
    """A field or parameter is missing, misspelt, of the wrong type or out of its range."""

    code = "invalid_request"
    title = "The request does not fit the contract"
    hint = "Mend what `errors` lists; /openapi.yaml has the whole contract."


class InvalidJson(Problem):
    """The body is not one JSON object in UTF-8."""

    code = "invalid_json"
    title = "The body is not a JSON object"
    hint = 'Send one JSON object in UTF-8, like {"type": "request", "content": "..."}.'


class InvalidCursor(Problem):
    """``after`` is not an id."""

    code = "invalid_cursor"
    title = "The cursor is not one"
    hint = "Pass the `next` of the page before, or leave `after` out."


class BodyTooLarge(Problem):
    """The body is larger than the service takes."""

    code = "body_too_large"
    title = "The body is too large"
    hint = "Keep large things elsewhere and send where they are."


class UnsupportedEncoding(Problem):
    """The body is compressed in a way that the service does not read."""

    code = "unsupported_encoding"
    title = "The body's encoding is not supported"
    hint = "Send the body as it is, or with `Content-Encoding: gzip`."


class SenderRequired(Problem):
    """A send that does not say who sends."""

    code = "sender_required"
    title = "The sender is missing"
    hint = 'Say who sends: "from" in the body, ?as=NAME, or the header Taskpost-Agent.'


class SenderMismatch(Problem):
    """One request names two different callers."""

    code = "sender_mismatch"
    title = "The request names two callers"
    hint = "Name yourself once, or the same way everywhere."


class ReservedName(Problem):
    """A name or a type that only the service itself may use."""

    code = "reserved"
    title = "That is the service's own"
    hint = "Use a name of your own, and one of the message types."


class ForeignRequest(Problem):
    """In open mode: a browser's page from elsewhere, or a Host that is not this machine."""

    code = "foreign_request"
    title = "The request comes from elsewhere"
    hint = "Without a secret the service serves its own machine only: ask it as 127.0.0.1."


class NotFound(Problem):
    """No such route; a name in the path is empty."""

    code = "not_found"
    title = "There is nothing here"
    hint = "GET / lists what there is."


class MethodNotAllowed(Problem):
    """The path exists, but not with this method."""

    code = "method_not_allowed"
    title = "The method does not fit the path"
    hint = "Use one of the methods in the Allow header."


class MessageNotFound(Problem):
    """No such message, or not one that the caller has a part in."""

    code = "message_not_found"
    title = "There is no such message"
    hint = "Use the `id` of a message that was sent by you or to you."


class TaskNotFound(Problem):
    """No such task, or not one that the caller has a part in."""

    code = "task_not_found"
    title = "There is no such task"
    hint = "GET /tasks lists the tasks that you have a part in."


class AgentNotFound(Problem):
    """No agent of that name has registered."""

    code = "agent_not_found"
    title = "There is no such agent"
    hint = (
        'GET /agents lists those that have registered; POST /agents {"id": "NAME"} registers one.'
    )


class InboxNotFound(Problem):
    """The inbox is another agent's than the caller says it is."""

    code = "inbox_not_found"
    title = "There is no such inbox"
    hint = "The agent in the path reads its own inbox: name yourself the same, or not at all."


class NameTaken(Problem):
    """The name or alias is another agent's."""

    code = "name_taken"
    title = "The name is another agent's"
    hint = "Choose another name or alias."


class NameDiffersInCase(Problem):
    """A known name differs from this one in nothing but case."""

    code = "name_differs_in_case"
    title = "A known name differs only in case"
    hint = "Use the known spelling: names are case-sensitive, and no two differ only in case."


class AgentRetired(Problem):
    """The recipient has retired, so nobody would read the message."""

    code = "agent_retired"
    title = "The agent has retired"
    hint = "Send it to another agent, or have this one register again."


class DeliversToNobody(Problem):
    """The message would reach nobody."""

    code = "delivers_to_nobody"
    title = "The message would reach nobody"
    hint = "Send it to an agent."


class TaskRequired(Problem):
    """An answer, a result or a note without the task that it belongs to."""

    code = "task_required"
    title = "The task is missing"
    hint = "Give `task_id`, or `reply_to` with the id of the message that this one answers."


class TaskClosed(Problem):
    """The task has been closed."""

    code = "task_closed"
    title = "The task is closed"
    hint = "Begin a new task: leave `task_id` out of a request and one is made."


class NotYours(Problem):
    """The caller sees the thing but may not do this to it."""

    code = "not_yours"
    title = "That is for somebody else to do"
    hint = "Ask the agent named in `detail`."


class ReplyNotFound(Problem):
    """``reply_to`` is no message that the sender has a part in."""

    code = "reply_not_found"
    title = "The message replied to is not there"
    hint = "`reply_to` takes the id of a message that was sent by you or to you."


class ReplyAcrossTasks(Problem):
    """``reply_to`` is a message of another task."""

    code = "reply_across_tasks"
    title = "The message replied to belongs to another task"
    hint = "Leave `task_id` out: the reply then goes to the task of the message it answers."


class KeyReused(Problem):
    """The idempotency key was used for something else."""

    code = "idempotency_key_reused"
    title = "The idempotency key was used for another message"
    hint = "Use a new key for a new message; repeat a send with the same path and the same body."


class MessageExpired(Problem):
    """The message was not read before its deadline."""

    code = "message_expired"
    title = "The message has expired"
    hint = "Its sender no longer waits; ask before doing the work."


class MessageDead(Problem):
    """The message failed too often and is kept as a dead letter."""

    code = "message_dead"
    title = "The message is a dead letter"
    hint = "It can be read with ?status=dead."


class LeaseLost(Problem):
    """The message is claimed and this is not the receipt of that claim, or its lease has ended."""

    code = "lease_lost"
    title = "The lease is not yours, or not any more"
    hint = "Drop what you were doing with it: another may have it. Claim again for more work."


class NotDead(Problem):
    """The message is no dead letter."""

    code = "not_dead"
    title = "The message is no dead letter"
    hint = "Only what ?status=dead lists can be redriven or discarded."


class Loop(Problem):
    """Two agents answer each other's `done` and `failed` without end."""

    code = "loop"
    title = "Two agents thank each other for ever"
    hint = "Acknowledge what you have received and send nothing: a `done` needs no answer."


class ServiceNotFound(Problem):
    """No such service."""

    code = "service_not_found"
    title = "There is no such service"
    hint = "GET /services lists them; POST /services/{service} makes one."


class ServiceClosed(Problem):
    """The service has been closed."""

    code = "service_closed"
    title = "The service is closed"
    hint = "Ask elsewhere; POST /services/{service} opens it again."


class StoreUnavailable(Problem):
    """The database is away; nothing was written."""

    code = "store_unavailable"
    title = "The database is not available"
    hint = "Nothing was written. Try again after the seconds in Retry-After, with the same key."
    retryable = True
    retry_after = 1


class StoreBusy(Problem):
    """Others kept the database busy for too long; nothing was written."""

    code = "store_busy"
    title = "The database is busy"
    hint = "Nothing was written. Try again after the seconds in Retry-After, with the same key."
    retryable = True
    retry_after = 1


class OutcomeUnknown(Problem):
    """The database broke while committing: it may have been written, or not."""

    code = "outcome_unknown"
    title = "It is not known whether this was done"
    hint = "Send it again with the same idempotency key: then it is done once."
    retryable = True
    retry_after = 1


class InternalError(Problem):
    """A mistake of the service itself."""

    code = "internal_error"
    title = "The service made a mistake"
    hint = "Nothing was written. Report it with the request_id; the log has the rest."


ALL: tuple[type[Problem], ...] = tuple(Problem.__subclasses__())
