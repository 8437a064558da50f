"""Views of services: declare, list, read, request, claim, work, close."""

from api import waiting
from api.call import Answer, Call
from api.views.claims import taken
from api.views.inbox import header_key, letter, look_at, reply, sent_answer
from api.waiting import Parked
from inbox import deadletters, names, services
from inbox.errors import InvalidCursor


def declare(call: Call) -> Answer:
    """201 with a new service, 200 with one that was there."""
    body = {key: value for key, value in call.body.items() if key != "sender"}
    service, new = services.declare(call.actor, call.path["service"], body)
    headers = (("Location", f"/services/{service.name}"),)
    return Answer(service, 201 if new else 200, headers)


def listed(call: Call) -> Answer:
    """A page of services by name."""
    after = call.query.get("after")
    if after is not None and names.service_fault(after):
        raise InvalidCursor(f"`after` is {after[:80]!r}, which is not the name of a service.")
    found, place = services.listed(call.actor, after, call.query["limit"])
    return Answer({"services": found} if place is None else {"services": found, "next": place})


def read(call: Call) -> Answer:
    """One service and how it is doing."""
    return Answer(services.read(call.actor, call.path["service"]))


def request(call: Call) -> Answer | Parked:
    """201 with the message. With ``wait``: what came back for it, or 202."""
    if call.wait is not None:
        return reply(call, call.wait)
    name = call.path["service"]
    asked = letter(names.service(name), call.body, header_key(call))
    return sent_answer(call, services.request(call.actor, name, asked))


def requests(call: Call) -> Answer | Parked:
    """A page of the service's messages, as of an inbox."""
    return look_at(call, services.inspect(call.actor, call.path["service"]))


def claim(call: Call) -> Answer | Parked:
    """The oldest requests that no worker holds. With ``wait``: once there are some."""
    name = call.path["service"]
    worker = services.take(call.actor, name)
    if worker is None:
        patient = waiting.seconds(call)
        return Answer({"messages": []}, headers=(("Retry-After", "1"),) if patient else ())
    body = {key: value for key, value in call.body.items() if key != "worker"}
    return taken(call._replace(body=body), worker, names.service(name))


def work(call: Call) -> Answer:
    """The worker, as it counts from now on."""
    return Answer(services.work(call.actor, call.path["service"], call.body))


def redrive(call: Call) -> Answer:
    """How many of the service's dead letters wait again."""
    address = services.inspect(call.actor, call.path["service"])
    return Answer(deadletters.redrive_all(call.actor, address)._asdict())


def close(call: Call) -> Answer:
    """The service, closed."""
    return Answer(services.close(call.actor, call.path["service"]))
