"""Views of claims and leases: claim, extend, release, redrive, discard."""

from api import waiting
from api.call import Answer, Call
from api.waiting import Later, Parked
from inbox import claims, deadletters, leases
from inbox.claims import Claim, Wanted
from inbox.names import Actor


def claim(call: Call) -> Answer | Parked:
    """The oldest messages that nobody holds. With ``wait``: once there are some."""
    return taken(call, call.actor, call.path["agent"])


def taken(call: Call, actor: Actor, address: str) -> Answer | Parked:
    """What ``actor`` can claim from an address, after what it is done with is settled.

    A look that comes after the first one settles nothing again.
    """
    body = call.body
    results = call.wait.kept if call.wait else claims.settle(actor, address, body.get("ack", ()))
    types = (body["type"],) if "type" in body else ()
    wanted = Wanted(body.get("task_id"), types, body["exclusive_tasks"])
    asked = Claim(wanted, body["limit"], body.get("lease_seconds"), body.get("worker"))

    def once(last: bool) -> Answer | Later:
        found = claims.claim(actor, address, asked, only=results is None)
        if not found and not last:
            return Later.RUNG
        made = {"messages": found}
        return Answer(made if results is None else {**made, "results": results})

    patience = waiting.seconds(call)
    addresses = claims.addresses(actor, address) if patience else ()
    answer = waiting.until(call, patience, addresses, once)
    if isinstance(answer, Parked):
        answer.wait.kept = results
    return answer


def extend(call: Call) -> Answer:
    """The message, held for longer."""
    body = call.body
    return Answer(
        leases.extend(call.actor, call.path["message"], body["receipt"], body["lease_seconds"])
    )


def release(call: Call) -> Answer:
    """The message, given back; or dead, if that was its last attempt."""
    body = call.body
    return Answer(
        leases.release(
            call.actor,
            call.path["message"],
            body["receipt"],
            body.get("delay_seconds"),
            body.get("reason"),
        )
    )


def redrive(call: Call) -> Answer:
    """The message, waiting again."""
    return Answer(deadletters.redrive(call.actor, call.path["message"]))


def redrive_all(call: Call) -> Answer:
    """How many dead letters wait again."""
    return Answer(deadletters.redrive_all(call.actor, call.path["agent"])._asdict())


def discard(call: Call) -> Answer:
    """The message, done with."""
    return Answer(deadletters.discard(call.actor, call.path["message"]))
