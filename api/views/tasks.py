"""Views of tasks: list, summary, history, close."""

from api import waiting
from api.call import Answer, Call
from api.waiting import Later, Parked
from inbox import tasks
from inbox.bell import Address


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


def history(call: Call) -> Answer | Parked:
    """A page of a task's messages, oldest first. With ``wait``: once there is one."""
    query, task_id = call.query, call.path["task_id"]

    def once(last: bool) -> Answer | Later:
        found, place, hidden = tasks.history(
            call.actor, task_id, query.get("after"), query["limit"]
        )
        if hidden and not last:
            return Later.SOON
        if not found and not last:
            return Later.RUNG
        return Answer({"messages": found} if place is None else {"messages": found, "next": place})

    address = Address(call.actor.realm, task_id=task_id)
    return waiting.until(call, waiting.seconds(call), [address], once, fenced=True)


def close(call: Call) -> Answer:
    """The summary of the task, closed."""
    return Answer(tasks.close(call.actor, call.path["task_id"], call.body.get("keep")))


def purge(call: Call) -> Answer:
    """The summary of the task, which is about to be removed."""
    return Answer(tasks.purge(call.actor, call.path["task_id"]))
