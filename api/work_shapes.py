"""The shapes of answers about claims, services and workers."""

from marshmallow import fields

from api.shapes import AckResult, Message, Reply, _count, _list, _next, _text, _time
from api.work_schemas import WORKING


def _number(text: str, required: bool = True) -> fields.Field:
    return fields.Float(required=required, metadata={"format": "double", "description": text})


def _some(text: str) -> fields.Field:
    return fields.Integer(metadata={"format": "int64", "description": text})


class Claim(Reply):
    """What was claimed, oldest first, each with its receipt."""

    messages = _list(Message, "Oldest first; each with `receipt` and `leased_until`.")
    results = _list(AckResult, "A result for each entry of `ack`.", required=False)


class Redriven(Reply):
    """Dead letters that can be claimed again."""

    redriven = _count("How many can be claimed again; at most 500 at once.")
    dead = _count("How many dead letters are left.")


class Worker(Reply):
    """A worker of a service."""

    name = _text("The agent that works.")
    state = _text("`idle`, `working` or `draining`.", examples=list(WORKING))
    since = _time("Since when it has been there.")
    until = _time("When it counts as gone unless it is heard of.")
    capacity = _some("How many requests it takes at once.")
    activity = _text("What it is doing, in its own words.", required=False)


class Service(Reply):
    """A service: how it is run and, when one is read, how it is doing."""

    name = _text("Its name.", examples=["translate"])
    created_at = _time("When it was made.")
    max_attempts = _count("How often a request may be claimed before it is a dead letter.")
    lease_seconds = _number("How long a claim lasts that does not say so.")
    title = _text("What it does.", required=False)
    deadline_seconds = _number("The `expires_in` of a request that gives none.", required=False)
    capacity = _some("How many requests may be in work at once.")
    closed_at = _time("When it was closed.", required=False)
    waiting = _some("How many messages wait to be claimed.")
    delayed = _some("How many are not due yet.")
    in_flight = _some("How many are claimed.")
    dead = _some("How many dead letters there are.")
    oldest_at = _time("When the oldest of those that wait was sent.", required=False)
    came = _some("How many came in the last five minutes, of the newest thousand.")
    acked = _some("How many were acknowledged in the last five minutes, of the newest thousand.")
    workers = _list(Worker, "The workers that are there, by name.", required=False)


class ServicePage(Reply):
    """Services by name."""

    services = _list(Service, "By name; without how they are doing.")
    next = _next()
