"""The one table of routes: it feeds Flask's url map and the contract."""

from collections.abc import Callable
from typing import NamedTuple

from api import schemas
from api.call import Answer, Call
from api.views import about, agents, inbox, tasks


class Route(NamedTuple):
    """One operation; ``answers`` maps a status to a schema, or to a content type, and a text."""

    method: str
    pattern: str
    view: Callable[[Call], Answer]
    operation: str  # a unique id, in camelCase
    summary: str
    answers: dict[int, tuple[type[schemas.Schema] | str | None, str]]
    query: type[schemas.Query] = schemas.Query
    body: type[schemas.Body] | None = None
    problems: tuple[int, ...] = ()
    own: bool = False  # the agent in the path is the caller
    hot: bool = False  # daily: worth the short way past Flask's dispatch
    about: bool = False  # of the service itself: asks nobody who they are

    @property
    def tag(self) -> str:
        """The group of the operation in the contract."""
        return self.view.__module__.rpartition(".")[2]


ROUTES = (
    Route(
        "POST", "/agents", agents.register, "registerAgent",
        "Register an agent, or change what is given of it",
        {201: (schemas.Agent, "A new agent."), 200: (schemas.Agent, "It was there already.")},
        body=schemas.RegisterAgent, problems=(409,),
    ),
    Route(
        "GET", "/agents", agents.listed, "listAgents", "List the agents, by name",
        {200: (schemas.AgentPage, "A page of agents.")},
        query=schemas.AgentsQuery, problems=(400,),
    ),
    Route(
        "GET", "/agents/{agent}", agents.read, "readAgent", "Read one agent, by name or alias",
        {200: (schemas.Agent, "The agent.")}, problems=(404,),
    ),
    Route(
        "POST", "/agents/{agent}/retire", agents.retire, "retireAgent",
        "Retire an agent: it takes no more mail",
        {200: (schemas.Agent, "The agent, retired.")},
        body=schemas.Empty, problems=(404,),
    ),
    Route(
        "DELETE", "/agents/{agent}", agents.delete, "deleteAgent", "The same as retire",
        {200: (schemas.AgentDeleted, "The agent has retired.")}, problems=(404,),
    ),
    Route(
        "POST", "/agents/{agent}/inbox", inbox.send_one, "sendMessage",
        "Send a message to an agent",
        {
            201: (schemas.SentMessage, "The message; it is committed."),
            200: (schemas.SentMessage, "It was sent before, with the same key."),
        },
        body=schemas.SendMessage, problems=(409,), hot=True,
    ),
    Route(
        "GET", "/agents/{agent}/inbox", inbox.look, "pollInbox",
        "Read an inbox, oldest message first; changes nothing",
        {
            200: (schemas.MessagePage, "A page of messages."),
            304: (None, "Nothing has changed since the ETag in If-None-Match."),
        },
        query=schemas.InboxQuery, problems=(400, 404, 409), own=True, hot=True,
    ),
    Route(
        "GET", "/agents/{agent}/inbox/count", inbox.count, "countInbox",
        "Count the messages that wait",
        {200: (schemas.InboxCount, "How much waits.")},
        problems=(404, 409), own=True, hot=True,
    ),
    Route(
        "POST", "/agents/{agent}/inbox/ack", inbox.ack_many, "ackMessages",
        "Acknowledge several messages of one inbox",
        {200: (schemas.AckResults, "A result for each id.")},
        body=schemas.AckMessages, problems=(404, 409), own=True, hot=True,
    ),
    Route(
        "POST", "/messages", inbox.send_many, "sendMessages",
        "Send up to 500 messages, all or none",
        {
            201: (schemas.SentMessages, "The messages; they are committed."),
            200: (schemas.SentMessages, "All were sent before, with the same keys."),
        },
        body=schemas.SendMessages, problems=(409,),
    ),
    Route(
        "POST", "/inbox/messages/{message}/ack", inbox.ack, "ackMessage",
        "Acknowledge a message: it is not listed any more",
        {200: (schemas.Message, "The message, acknowledged.")},
        body=schemas.AckMessage, problems=(404, 409), hot=True,
    ),
    Route(
        "GET", "/inbox/messages/{message}", inbox.receipt, "readMessage",
        "Read a message that was sent by you or to you, with what became of it",
        {200: (schemas.Message, "The message.")}, problems=(404, 409),
    ),
    Route(
        "GET", "/tasks", tasks.listed, "listTasks",
        "List the tasks that you have a part in, newest first",
        {200: (schemas.TaskPage, "A page of tasks.")},
        query=schemas.TasksQuery, problems=(400, 409),
    ),
    Route(
        "GET", "/tasks/{task_id}", tasks.read, "readTask",
        "Read what a task's messages say: its state, who owes what to whom",
        {200: (schemas.Task, "The task.")}, problems=(404, 409),
    ),
    Route(
        "GET", "/tasks/{task_id}/messages", tasks.history, "readHistory",
        "Read the messages of a task, oldest first",
        {200: (schemas.MessagePage, "A page of messages.")},
        query=schemas.HistoryQuery, problems=(400, 404, 409),
    ),
    Route(
        "POST", "/tasks/{task_id}/close", tasks.close, "closeTask",
        "Close a task: it takes no more messages",
        {200: (schemas.Task, "The task, closed.")},
        body=schemas.Empty, problems=(404, 409),
    ),
    Route(
        "GET", "/health", about.health, "health", "Whether the process serves",
        {200: (schemas.Health, "It does.")}, about=True,
    ),
    Route(
        "GET", "/ready", about.ready, "ready", "Whether the database answers",
        {200: (schemas.Readiness, "It does.")}, about=True,
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
