"""The end of agents that were registered for a task or for some seconds, and of closed services.

The end is kept in the database, so that it comes also if the server was down
meanwhile. Whoever still waited for such an agent or service is told.
"""

from inbox import agents, burial
from inbox.names import Actor
from models import clock, facts, moves, services, sweeping
from models.sweeping import Ended

GRACE = agents.GRACE
BATCH = 200
FACTS = ("name", "agent", "seen", "retired", "queue")


def end(realm: str, ended: Ended) -> int:
    """Do a batch of what ends an agent; how many rows it touched.

    It retires; what is unread in its inbox is told of; its mail goes; a day
    later also its name, which is then free.
    """
    name = ended.inbox
    agents.retire(Actor(realm), name)
    unread = sweeping.unread_in(realm, name, BATCH)
    if unread:
        return burial.drop(realm, unread, "agent_retired")
    gone = sweeping.empty(realm, name, BATCH, clock.now() - GRACE)
    if gone:
        return gone
    fact = facts.get(realm, "agent", name)
    assert fact is not None
    over = (fact.settled_at or 0) + GRACE
    if clock.now() < over:
        sweeping.later(ended.seq, over)
        return 0
    owned = [each.seq for each in moves.names_of(realm, name)]
    facts.remove(owned)
    sweeping.forget(realm, name, FACTS)
    return 1


def end_queue(realm: str, inbox: str) -> int:
    """End a batch of what is unread for a closed service; how many. The sweeper goes on with it."""
    ended = services.end(realm, inbox, BATCH)
    services.leave_to_sweeper(realm, inbox, left=ended == BATCH)
    return ended
