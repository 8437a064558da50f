"""Views of tasks: list, summary, history, close."""

from api.call import Answer, Call
from inbox import tasks


def listed(call: Call) -> Answer:
    """A page of tasks, newest first."""
    query = call.query
    found, place = tasks.listed(
        call.actor, query.get("state"), query.get("agent"), query.get("after"), query["limit"]
    )
    return Answer({"tasks": found} if place is None else {"tasks": found, "next": place})


def read(call: Call) -> Answer:
    """The summary of a task."""
    return Answer(tasks.read(call.actor, call.path["task_id"]))


def history(call: Call) -> Answer:
    """A page of a task's messages, oldest first."""
    query = call.query
    found, place = tasks.history(
        call.actor, call.path["task_id"], query.get("after"), query["limit"]
    )
    return Answer({"messages": found} if place is None else {"messages": found, "next": place})


def close(call: Call) -> Answer:
    """The summary of the task, closed."""
    return Answer(tasks.close(call.actor, call.path["task_id"]))
