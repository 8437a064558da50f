"""Views of agents: register, list, read, retire."""

from api.call import Answer, Call
from inbox import agents
from inbox.errors import InvalidCursor
from inbox.names import agent_fault


def register(call: Call) -> Answer:
    """201 with a new agent, 200 with one that was there."""
    body = dict(call.body)
    body.pop("sender", None)
    agent, new = agents.register(call.actor, body.pop("id"), body)
    return Answer(agent, 201 if new else 200, (("Location", f"/agents/{agent.id}"),))


def listed(call: Call) -> Answer:
    """A page of agents by name."""
    query = call.query
    after = query.get("after")
    if after is not None and agent_fault(after):
        raise InvalidCursor(f"`after` is {after[:80]!r}, which is not the name of an agent.")
    found, place = agents.listed(
        call.actor, query.get("tag"), query.get("q"), after, query["limit"]
    )
    return Answer({"agents": found} if place is None else {"agents": found, "next": place})


def read(call: Call) -> Answer:
    """One agent."""
    return Answer(agents.read(call.actor, call.path["agent"]))


def retire(call: Call) -> Answer:
    """The agent, retired."""
    return Answer(agents.retire(call.actor, call.path["agent"]))


def delete(call: Call) -> Answer:
    """The same as retire, in the words of the original interface."""
    agent = agents.retire(call.actor, call.path["agent"])
    return Answer({"status": "deleted", "agent_id": agent.id})
