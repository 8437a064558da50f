"""The one table of routes: it feeds Flask's url map and the contract."""

from api import schemas, shapes
from api.route import SENDING, Route
from api.views import about, agents, inbox, tasks
from api.work_routes import WORK
from inbox.errors import (
    AgentNotFound,
    InvalidCursor,
    LeaseLost,
    MessageDead,
    MessageExpired,
    MessageNotFound,
    NameDiffersInCase,
    NameTaken,
    NotYours,
    ReservedName,
    StoreBusy,
    StoreUnavailable,
    TaskClosed,
    TaskNotFound,
)

ROUTES = (
    Route(
        "POST", "/agents", agents.register, "registerAgent",
        "Register an agent, or change what is given of it",
        {201: (shapes.Agent, "A new agent."), 200: (shapes.Agent, "It was there already.")},
        body=schemas.RegisterAgent,
        problems=(ReservedName, NameTaken, NameDiffersInCase, TaskClosed),
    ),
    Route(
        "GET", "/agents", agents.listed, "listAgents", "List the agents, by name",
        {200: (shapes.AgentPage, "A page of agents.")},
        query=schemas.AgentsQuery, problems=(InvalidCursor,),
    ),
    Route(
        "GET", "/agents/{agent}", agents.read, "readAgent", "Read one agent, by name or alias",
        {200: (shapes.Agent, "The agent.")}, problems=(AgentNotFound, NameDiffersInCase),
    ),
    Route(
        "POST", "/agents/{agent}/retire", agents.retire, "retireAgent",
        "Retire an agent: it takes no more mail",
        {200: (shapes.Agent, "The agent, retired.")},
        body=schemas.Caller, problems=(AgentNotFound, NameDiffersInCase),
    ),
    Route(
        "DELETE", "/agents/{agent}", agents.delete, "deleteAgent", "The same as retire",
        {200: (shapes.AgentDeleted, "The agent has retired.")},
        problems=(AgentNotFound, NameDiffersInCase),
    ),
    Route(
        "POST", "/agents/{agent}/inbox", inbox.send_one, "sendMessage",
        "Send a message to an agent",
        {
            201: (shapes.Message, "The message; it is committed."),
            200: (
                shapes.Message,
                "The message, sent before with the same key. With `wait`: what came back for it.",
            ),
            202: (shapes.Message, "The message; it is committed, and nothing came back in time."),
        },
        query=schemas.SendQuery, body=schemas.SendMessage, problems=SENDING, hot=True,
        together=inbox.send_together,
    ),
    Route(
        "GET", "/agents/{agent}/inbox", inbox.look, "pollInbox",
        "Read an inbox, oldest message first; changes nothing",
        {
            200: (shapes.MessagePage, "A page of messages."),
            304: (None, "Nothing has changed since the ETag in If-None-Match."),
        },
        query=schemas.InboxQuery, problems=(InvalidCursor, NameDiffersInCase),
        own=True, hot=True, together=inbox.look_together,
    ),
    Route(
        "GET", "/agents/{agent}/inbox/count", inbox.count, "countInbox",
        "Count the messages that wait",
        {200: (shapes.InboxCount, "How much waits.")},
        problems=(NameDiffersInCase,), own=True, hot=True,
    ),
    Route(
        "POST", "/agents/{agent}/inbox/ack", inbox.ack_many, "ackMessages",
        "Acknowledge several messages of one inbox",
        {200: (shapes.AckResults, "A result for each id.")},
        body=schemas.AckMessages, problems=(NameDiffersInCase,), own=True, hot=True,
    ),
    Route(
        "POST", "/messages", inbox.send_many, "sendMessages",
        "Send up to 500 messages, all or none",
        {
            201: (shapes.SentMessages, "The messages; they are committed."),
            200: (shapes.SentMessages, "All were sent before, with the same keys."),
        },
        body=schemas.SendMessages, problems=SENDING,
    ),
    Route(
        "POST", "/inbox/messages/{message}/ack", inbox.ack, "ackMessage",
        "Acknowledge a message: it is not listed any more",
        {200: (shapes.Message, "The message, acknowledged.")},
        body=schemas.AckMessage, hot=True, together=inbox.ack_together,
        problems=(
            NotYours, MessageNotFound, MessageExpired, MessageDead, LeaseLost, NameDiffersInCase,
        ),
    ),
    Route(
        "GET", "/inbox/messages/{message}", inbox.receipt, "readMessage",
        "Read a message that was sent by you or to you, with what became of it",
        {200: (shapes.Message, "The message.")}, problems=(MessageNotFound, NameDiffersInCase),
    ),
    Route(
        "GET", "/tasks", tasks.listed, "listTasks",
        "List the tasks that you have a part in, newest first",
        {200: (shapes.TaskPage, "A page of tasks.")},
        query=schemas.TasksQuery, problems=(InvalidCursor, NameDiffersInCase),
    ),
    Route(
        "GET", "/tasks/{task_id}", tasks.read, "readTask",
        "Read what a task's messages say: its state, who owes what to whom",
        {200: (shapes.Task, "The task.")}, problems=(TaskNotFound, NameDiffersInCase),
    ),
    Route(
        "GET", "/tasks/{task_id}/messages", tasks.history, "readHistory",
        "Read the messages of a task, oldest first",
        {200: (shapes.MessagePage, "A page of messages.")},
        query=schemas.HistoryQuery,
        problems=(InvalidCursor, TaskNotFound, NameDiffersInCase),
    ),
    Route(
        "POST", "/tasks/{task_id}/close", tasks.close, "closeTask",
        "Close a task: it takes no more messages",
        {200: (shapes.Task, "The task, closed.")},
        body=schemas.CloseTask, problems=(NotYours, TaskNotFound, NameDiffersInCase),
    ),
    Route(
        "POST", "/tasks/{task_id}/purge", tasks.purge, "purgeTask",
        "Close a task and have all its messages removed",
        {200: (shapes.Task, "The task, closed and about to be removed.")},
        body=schemas.Caller, problems=(NotYours, TaskNotFound, NameDiffersInCase),
    ),
    *WORK,
    Route(
        "GET", "/health", about.health, "health", "Whether the process serves",
        {200: (shapes.Health, "It does.")}, about=True,
    ),
    Route(
        "GET", "/ready", about.ready, "ready", "Whether the database answers",
        {200: (shapes.Readiness, "It does.")}, problems=(StoreUnavailable, StoreBusy), about=True,
    ),
    Route(
        "GET", "/openapi.yaml", about.contract_yaml, "contractYaml", "This contract",
        {200: ("application/yaml", "The contract.")}, about=True,
    ),
    Route(
        "GET", "/openapi.json", about.contract_json, "contractJson", "This contract, as JSON",
        {200: ("application/json", "The contract.")}, about=True,
    ),
    Route(
        "GET", "/", about.guide, "guide", "A short guide",
        {200: ("text/plain", "The guide; a page for a browser.")}, about=True,
    ),
    Route(
        "GET", "/llms.txt", about.guide_text, "guideText", "The short guide, as text",
        {200: ("text/plain", "The guide.")}, about=True,
    ),
)  # fmt: skip
