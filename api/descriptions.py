"""What the contract says in prose: about the service, each operation, parameter and header."""

SERVICE = """\
An email-style, task-threaded inbox for agents. Each agent has an inbox; messages carry a
`task_id`, which threads a conversation. Agents poll what is unread and acknowledge it; what
is not acknowledged comes again.

    orchestrator -> translator     request   task-42   "translate this contract"
    translator   -> orchestrator   question  task-42   "clause 3: A or B?"
    orchestrator -> translator     answer    task-42   "A"
    translator   -> orchestrator   done      task-42   {...}

**Names.** An agent is `name` or `name@box`, where both parts are 1 to 64 letters, digits, dots,
underscores and hyphens and begin with a letter or digit. Names are case-sensitive, and no two
differ only in case. A task id is 1 to 200 printable characters and does not begin with `room:`
or `dm:`. The id of a message is opaque, of one length, and sorts as messages do.

**Who is asking.** Without credentials the service serves its own machine only, and the caller
names itself. On its own inbox (poll, count, claim, bulk ack) it is the agent in the path; elsewhere
`from` in the body, or `as` in the query, or the header `Taskpost-Agent`. A call that names nobody
is the operator's, and may read and acknowledge everything.

**JSON.** Every body is one JSON object in UTF-8, whatever its content type says. Unknown fields
and parameters are refused with a suggestion. Null is as if left out, except in `content` and in a
registration, where it clears. Times are RFC 3339 in UTC with milliseconds. Answers leave out what
does not apply, and may have fields that this contract does not know yet.

**Lists** take `limit` and `after`, and answer `next` unless they are at their end.

**Problems** are RFC 9457 documents of type `application/problem+json`. `code` is for programs,
`hint` says what to do next. Every 503 carries a Retry-After header.

**Waiting.** Where there is a parameter `wait`, an answer that has nothing to tell is held until it
has. When too many wait already, it comes at once, with a Retry-After header.

**Every path** takes HEAD wherever it takes GET, and OPTIONS, which answers 204 with an Allow
header. A slash at its end changes nothing. Every answer has an X-Request-Id, the caller's own
where it sent one of 1 to 64 letters, digits, dots, underscores and hyphens.

**Before it reaches an operation** a request that is no HTTP/1.1, too long or too slow is refused,
with a problem as well:
{refusals}.

`docs/protocol.md` is the normative text.
"""

TAGS = {
    "agents": "Who takes part.",
    "inbox": "Sending, polling, acknowledging.",
    "claims": "Taking messages for a while, so that nobody else works on them.",
    "services": "Addresses whose mail one of several workers takes.",
    "tasks": "Threads of messages and what they say.",
    "about": "The service itself.",
}

OPERATIONS = {
    "registerAgent": """\
Registering is optional: mail can be sent to, and polled by, any name. It lets others find the
agent, and settles how its name is spelt.

Repeating it changes what is given, keeps what is left out, and clears what is null. A retired
agent comes back, with the requests that waited for it.
""",
    "listAgents": """\
The agents that have registered and have not retired. A page that `tag` or `q` narrows may be
short and still have a `next`.
""",
    "readAgent": "One agent as it has registered, also when it has retired.",
    "retireAgent": """\
The agent takes no more mail and leaves the list. Its unread requests expire within a day, and
are restored if it registers again in that time. Retiring twice is as once.
""",
    "deleteAgent": "The same as `retireAgent`, in the words of the original interface.",
    "sendMessage": """\
The message is committed when 201 comes back: it will be listed to its recipient until that
acknowledges it.

Without `task_id` it goes to the task of `reply_to`; or, for a request, a question or a message, a
new task begins, whose id is in the answer. The recipient need not have registered; `recipient`
says whether it is known, and names the nearest known one when it is not.

With an idempotency key the message is sent once, however often the request is repeated: the
repeat is answered with 200 and the first message. The same key with another recipient or body is
a 422.

With `wait` the answer is held for what comes back: the first done, failed or question on the task
in the sender's inbox after this message (200; it stays unread), or the sent message when the time
is up (202).
""",
    "pollInbox": """\
The messages of the agent in the path, oldest first. Polling changes nothing: the same look twice
finds the same, until a message is acknowledged. A page ends at `limit` messages or 4 MiB.

The ETag changes when the page does, or when something new arrives anywhere in the inbox; sent
back in If-None-Match, an unchanged inbox is answered with 304.

With `wait` an empty answer is held until there is a message; with If-None-Match as well, until
something changes. `after` only pages through one look, so it does not go with `wait`.
""",
    "countInbox": "How many messages a poll would list as unread, and how many come later.",
    "ackMessages": """\
The agent in the path is done with these messages of its inbox. Each id has a result, in order,
also one that is unknown; one that was acknowledged before is `acked`.
""",
    "sendMessages": """\
The messages are sent in their order, in one transaction: when one is refused none is sent, and
`errors` points to it.

With the header Idempotency-Key the message at index 3 has the key `key#3`; each message may also
have a key of its own.
""",
    "ackMessage": """\
The recipient is done with the message: it is not listed as unread any more. Acknowledging twice
is as once, with the same `acked_at`.
""",
    "readMessage": """\
To its sender it is a receipt: whether the message still waits, or when it was acknowledged.
""",
    "listTasks": """\
The tasks that the caller has a part in. A page that `state` or `agent` narrows may be short, even
empty, and still have a `next`.
""",
    "readTask": """\
A summary derived from the messages of the task that the caller has sent or received. A request is
open until a done or failed replies to it (one without `reply_to`: any on the task from its
recipient), or it is cancelled. The state of a task is the worst of its requests.
""",
    "readHistory": """\
The messages of the task that the caller has sent or received. Reading on with `after` set to the
last id seen skips nothing, also while others are sending. With `wait` an empty answer is held
until there is a message.
""",
    "closeTask": """\
The task takes no more messages; sending to it is a 409 `task_closed`. It can be closed by the
agent that began it, and by the operator. Closing twice is as once.
""",
    "purgeTask": """\
The task is closed and, within seconds, removed with all its messages. The senders of what is
unread are told, and have a day to read that. A row with an idempotency key stays for its 24 hours.
For the agent that began the task, and for the operator.
""",
    "claimMessages": """\
For an agent that runs in several processes. The oldest messages that nobody holds come with a
`receipt`, and nobody else gets them until `leased_until`. Whoever claims then acknowledges with
the receipt, extends the lease, or releases the message. A lease that ends unused is nobody's
fault: the message is claimed by the next, with one more in `attempts`. After `max_attempts` claims
it is a dead letter, and the sender of a request or question is answered with `failed`.

`ack` names what the claimer is done with; it is acknowledged in the same transaction, and
`results` says what became of each. Messages are claimed in the order of their ids.
""",
    "redriveMessages": "The oldest 1,000 dead letters; call it again while `dead` is not 0.",
    "extendLease": """\
The lease ends `lease_seconds` from now. Once it has ended, or another has claimed the message, it
is a 409 `lease_lost`, and the holder should drop its work.
""",
    "releaseMessage": """\
The message can be claimed again after `delay_seconds`; without them after 1 second, 2, 4 and so
on with each attempt. After its last attempt it is a dead letter instead, with the reason, and the
sender of a request or question is told in the same transaction.
""",
    "redriveMessage": """\
It waits again, with no attempts behind it. No receipt from before fits. For the recipient, the
workers of the service, and the operator.
""",
    "discardMessage": "It is acknowledged, and keeps the reason for which it died.",
    "listServices": "How each is run. How it is doing is in `readService`.",
    "readService": """\
How much waits, is delayed, is in work or dead; since when the oldest waits; how many came and how
many were acknowledged in the last five minutes; and which workers have been heard of.
""",
    "declareService": """\
Optional: a service is also made by the first request to it, and by its first worker. Declaring one
that was closed opens it again; old claims stay dead.
""",
    "requestService": """\
As `sendMessage`, to the service. Whoever claims it replies to the sender, on the same task.
`recipient.served` says whether a worker is there at this moment; without one the request waits.

A `cancel` takes back what no worker has claimed, and goes to those that have. With `reply_to` it
means that request, without it all of the sender's on that task.
""",
    "listRequests": "For the workers of the service, and for the operator; as `pollInbox`.",
    "claimRequests": """\
As `claimMessages`, for the worker that asks. It counts as there for its lease of a minute, or
what it has registered with; a worker that is draining gets nothing.
""",
    "registerWorker": """\
The worker counts as there until its lease ends; repeat it, or claim, to stay. It makes the service
if need be, and opens one that was closed.
""",
    "redriveRequests": "As `redriveMessages`, for the workers of the service and the operator.",
    "closeService": """\
It takes no more requests. Whatever waits or is in work expires now, and its senders are answered
with `failed` within seconds. For the agent that made it, and for the operator.
""",
    "health": "It never touches the database.",
    "ready": "503 while the database is away. `sweeper` is absent before its first run.",
    "contractYaml": "The contract that you are reading, as the service has it.",
    "contractJson": "The same contract in JSON.",
    "guide": "From the base URL alone to a first conversation, in under 40 lines.",
    "guideText": "The same guide, in plain text for everybody.",
}

PATH_PARAMETERS = {
    "agent": "The name of an agent, or one of its aliases.",
    "message": "The id of a message.",
    "service": "The name of a service.",
    "task_id": "The id of a task.",
}

REQUEST_HEADERS = {
    "Idempotency-Key": "Sends once, however often the request is repeated; at most 255 printable"
    " characters.",
    "If-None-Match": "The ETag of an earlier look: 304 when nothing has changed since.",
    "Prefer": "`wait=N` means the same as the parameter `wait`.",
}

ANSWER_HEADERS = {
    "Allow": "The methods that the path takes.",
    "Cache-Control": "Always `no-cache`: ask again, with the ETag.",
    "ETag": "A mark of what was found, for If-None-Match.",
    "Idempotency-Replayed": "`true` when the message was sent before, with the same key.",
    "Location": "Where the thing can be read.",
    "Retry-After": "Seconds after which to try again; where `wait` was asked for, that there was no"
    " place to wait in.",
    "X-Request-Id": "Names this request in the log of the service.",
}
