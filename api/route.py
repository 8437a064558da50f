"""What a route is: one operation of the service."""

from collections.abc import Callable
from typing import NamedTuple

from api import envelopes, shapes
from api.call import Answer, Call
from api.waiting import Parked
from inbox.errors import (
    AgentRetired,
    DeliversToNobody,
    KeyReused,
    Loop,
    NameDiffersInCase,
    Problem,
    ReplyAcrossTasks,
    ReplyNotFound,
    ReservedName,
    SenderRequired,
    TaskClosed,
    TaskRequired,
)

# An answer for each call, in order; None for one that is to be viewed by itself.
Together = Callable[[list[Call]], list[Answer | None]]


class Route(NamedTuple):
    """One operation; ``answers`` maps a status to a schema, or to a content type, and a text."""

    method: str
    pattern: str
    view: Callable[[Call], Answer | Parked]
    operation: str  # a unique id, in camelCase
    summary: str
    answers: dict[int, tuple[type[shapes.Reply] | str | None, str]]
    query: type[envelopes.Query] = envelopes.Query
    body: type[envelopes.Body] | None = None
    problems: tuple[type[Problem], ...] = ()  # beside those of all requests of its kind
    own: bool = False  # the agent in the path is the caller
    hot: bool = False  # daily: worth the short way past Flask's dispatch
    takes: bool = False  # when it has waited, its look writes
    together: Together | None = None  # does several at once, as far as that is simple
    about: bool = False  # of the service itself: asks nobody who they are

    @property
    def tag(self) -> str:
        """The group of the operation in the contract."""
        return self.view.__module__.rpartition(".")[2]


SENDING: tuple[type[Problem], ...] = (
    SenderRequired,
    ReservedName,
    DeliversToNobody,
    TaskRequired,
    ReplyNotFound,
    ReplyAcrossTasks,
    KeyReused,
    NameDiffersInCase,
    AgentRetired,
    TaskClosed,
    Loop,
)
