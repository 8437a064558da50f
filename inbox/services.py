"""Services: addresses whose mail is claimed by one of several workers.

A service is a name on record, as an agent's is, and a queue. It is made by
whoever needs it first: the one who asks, the one who works, or the one who
declares how it is to be run.
"""

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from inbox import lifetimes, names, send
from inbox.errors import (
    AgentRetired,
    NameDiffersInCase,
    NotYours,
    SenderRequired,
    ServiceClosed,
    ServiceNotFound,
)
from inbox.message import Recipient, timestamp
from inbox.names import Actor
from inbox.poll import resolve
from inbox.send import Letter, Sent
from models import clock, facts, graves, inboxes, queues, services
from models.facts import Fact
from models.queues import LEASE, MAX_ATTEMPTS, Queue
from models.services import Worker

WORKER_LEASE = 60.0  # seconds that a worker counts as there after it has been heard of
LISTED = 1000  # workers of one service that are told of
CANCELLABLE = ("request", "question")


class Working(msgspec.Struct, omit_defaults=True):
    """A worker as it has registered."""

    name: str
    state: str
    since: str
    until: str
    capacity: int | None = None
    activity: str | None = None


class Service(msgspec.Struct, omit_defaults=True):
    """A service: how it is run and, when one is read, how it is doing."""

    name: str
    created_at: str
    max_attempts: int
    lease_seconds: float
    title: str | None = None
    deadline_seconds: float | None = None
    capacity: int | None = None
    closed_at: str | None = None
    waiting: int | None = None
    delayed: int | None = None
    in_flight: int | None = None
    dead: int | None = None
    oldest_at: str | None = None
    came: int | None = None
    acked: int | None = None
    workers: list[Working] | None = None


def is_service(address: str) -> bool:
    """Whether an address is that of a service."""
    return address.startswith(names.SERVICE)


def declare(actor: Actor, name: str, fields: Mapping[str, Any]) -> tuple[Service, bool]:
    """Make a service, open it again, or change what is given of it; whether it is new.

    What is left out stays as it was, None clears.
    """
    address = names.service(name)
    new = _opened(actor, name, again=True)
    queue = queues.read(actor.realm, address, lock=True)
    assert queue is not None
    attempts = _given(fields, "max_attempts", queue.max_attempts, MAX_ATTEMPTS)
    lease = _given(fields, "lease_seconds", queue.lease / 1000, LEASE / 1000)
    kept = {key: fields.get(key, queue.details.get(key)) for key in DETAILS}
    details = {key: value for key, value in kept.items() if value is not None}
    _queue(actor, address, int(attempts), round(lease * 1000), details)
    return read(actor, name), new


DETAILS = ("title", "deadline_seconds", "capacity")


def _given(fields: Mapping[str, Any], key: str, was: float, default: float) -> float:
    value = fields.get(key, was)
    return default if value is None else value


def _queue(
    actor: Actor, address: str, attempts: int, lease: int, details: Mapping[str, Any]
) -> None:
    by = actor.name or names.POSTMASTER
    queues.state(actor.realm, address, by, attempts, lease, details)


def _opened(actor: Actor, name: str, again: bool) -> bool:
    """See to it that a service is there and open; whether it is new.

    One that has been closed is opened only ``again``, if somebody says so.
    """
    address = names.service(name)
    fact = _fact(actor.realm, name)
    if fact is None:
        key, spelt = names.key(address), names.spelt(address)
        by = actor.name or names.POSTMASTER
        facts.state(actor.realm, "name", address, by, spelt, key=key)
        _queue(actor, address, MAX_ATTEMPTS, LEASE, {})
        return True
    if fact.settled_at is not None:
        if not again:
            raise ServiceClosed(f"The service {name} has been closed.")
        if services.is_left(actor.realm, address):
            raise ServiceClosed(
                f"The service {name} has been closed, and what waited for it is still being ended.",
                hint="Try again in some seconds.",
            )
        facts.withdraw([fact.seq], None)
    return False


def _fact(realm: str, name: str) -> Fact | None:
    """The service's name on record; raises ``NameDiffersInCase``."""
    key = names.key(names.service(name))
    fact = facts.names(realm, [key]).get(key)
    if fact is not None and json.loads(fact.content or "null") != names.service(name):
        known = json.loads(fact.content or "null").removeprefix(names.SERVICE)
        raise NameDiffersInCase(f"{name} is not known, {known} is.")
    return fact


def address(actor: Actor, name: str) -> str:
    """The address of a service that is there; raises ``ServiceNotFound``."""
    if _fact(actor.realm, name) is None:
        raise ServiceNotFound(f"There is no service {name}.")
    return names.service(name)


def request(actor: Actor, name: str, letter: Letter) -> Sent:
    """Send to a service, which is made if need be; says whether a worker is there.

    A cancel goes to whoever holds the request; what nobody holds is taken back.
    """
    if actor.name is None:
        raise SenderRequired("A message needs a sender.")
    new = _opened(actor, name, again=False)
    queue = queues.read(actor.realm, letter.to)
    if letter.expires_in is None and letter.type == "request" and queue is not None:
        letter.expires_in = queue.details.get("deadline_seconds")
    sent = send.send(actor, letter)
    if letter.type == "cancel" and not sent.replayed:
        _cancel(actor, sent, letter)
    served = bool(services.workers(actor.realm, letter.to, 1))
    sent.message.recipient = Recipient(known=not new, served=served)
    return sent


def _cancel(actor: Actor, sent: Sent, letter: Letter) -> None:
    cancel = sent.message
    _, holders = graves.withdrawn(
        actor.realm, cancel.task_id, cancel.sender, cancel.to, sent.answers, CANCELLABLE
    )
    for holder in holders:
        copy = msgspec.structs.replace(
            letter, to=holder, task_id=cancel.task_id, idempotency_key=None
        )
        with contextlib.suppress(AgentRetired):  # then nobody works on it any more
            send.send(actor, copy)


def work(actor: Actor, name: str, fields: Mapping[str, Any]) -> Working:
    """Say that the actor works for a service, which is made or opened if need be.

    It counts as there until its lease ends; claiming from the service prolongs that.
    """
    worker = _worker(actor)
    _opened(actor, name, again=True)
    place = names.service(name)
    known = services.working(actor.realm, place, worker)
    was = known.details if known else {}
    details = {key: fields.get(key, was.get(key)) for key in ("state", "capacity", "activity")}
    details["state"] = details["state"] or "idle"
    details["lease_seconds"] = lease = fields.get("lease_seconds") or WORKER_LEASE
    services.work(actor.realm, place, worker, details, round(lease * 1000))
    found = services.working(actor.realm, place, worker)
    assert found is not None
    return _working(found)


def _worker(actor: Actor) -> str:
    if actor.name is None:
        raise SenderRequired("Whoever works for a service has a name.")
    return resolve(actor.realm, names.unreserved(actor.name))


def take(actor: Actor, name: str) -> Actor | None:
    """The actor as a worker of a service, which counts as there; None when it is draining.

    The service is made if need be. Raises ``ServiceClosed``.
    """
    worker = _worker(actor)
    _opened(actor, name, again=False)
    place = names.service(name)
    known = services.working(actor.realm, place, worker)
    details: dict[str, Any] = known.details if known else {"state": "idle"}
    lease = round(details.get("lease_seconds", WORKER_LEASE) * 1000)
    if known is None or known.until - clock.now() < lease / 2:
        services.work(actor.realm, place, worker, details, lease)
    return None if details["state"] == "draining" else actor._replace(name=worker)


def works_for(realm: str, inbox: str, agent: str) -> bool:
    """Whether an agent works for the service whose inbox this is."""
    return is_service(inbox) and services.working(realm, inbox, agent) is not None


def listed(actor: Actor, after: str | None, limit: int) -> tuple[list[Service], str | None]:
    """Services by name, and the cursor of the next page."""
    start = names.service(after or "")
    found = queues.listed(actor.realm, start, AFTER_ALL, limit + 1)
    made = [_service(actor, queue) for queue in found[:limit]]
    return made, made[-1].name if len(found) > limit else None


AFTER_ALL = names.SERVICE[:-1] + chr(ord(names.SERVICE[-1]) + 1)


def read(actor: Actor, name: str) -> Service:
    """One service and how it is doing; raises ``ServiceNotFound``."""
    place = address(actor, name)
    queue = queues.read(actor.realm, place)
    assert queue is not None
    made = _service(actor, queue)
    _, counts = inboxes.count(actor.realm, place, names.key(place))
    oldest = services.oldest(actor.realm, place)
    made.waiting, made.delayed = counts.unread, counts.delayed
    made.in_flight, made.dead = counts.in_flight, counts.dead
    made.oldest_at = timestamp(oldest) if oldest is not None else None
    made.came, made.acked = services.rates(actor.realm, place)
    made.workers = [_working(each) for each in services.workers(actor.realm, place, LISTED)]
    return made


def _service(actor: Actor, queue: Queue) -> Service:
    name = queue.inbox.removeprefix(names.SERVICE)
    fact = _fact(actor.realm, name)
    closed = fact.settled_at if fact is not None else None
    return Service(
        name,
        timestamp(queue.created_at),
        queue.max_attempts,
        queue.lease / 1000,
        **queue.details,
        closed_at=timestamp(closed) if closed is not None else None,
    )


def _working(worker: Worker) -> Working:
    details = {key: worker.details.get(key) for key in ("capacity", "activity")}
    state = worker.details["state"]
    return Working(worker.name, state, timestamp(worker.since), timestamp(worker.until), **details)


def close(actor: Actor, name: str) -> Service:
    """Close a service: what waits or is in work for it ends, and the askers are told.

    For the agent that made it and the operator. Twice is as once.
    """
    fact = _fact(actor.realm, name)
    if fact is None:
        raise ServiceNotFound(f"There is no service {name}.")
    if actor.name is not None and resolve(actor.realm, actor.name) != fact.sender:
        raise NotYours(f"The service was made by {fact.sender}, who may close it.")
    if fact.settled_at is None:
        facts.withdraw([fact.seq], clock.now())
        lifetimes.end_queue(actor.realm, names.service(name))
    return read(actor, name)


def inspect(actor: Actor, name: str) -> str:
    """The address of a service whose mail the actor may read: the operator's and the workers'."""
    place = address(actor, name)
    if actor.name is not None and not works_for(
        actor.realm, place, resolve(actor.realm, actor.name)
    ):
        raise NotYours(f"The mail of the service {name} is for its workers to read.")
    return place
