"""Every statement of every verb uses its index, whatever lies in the table and is known of it.

On PostgreSQL a plan is made once a connection from what is known at that
time: so the verbs run on a new table, on one that has been analyzed, and on
one where two inboxes hold everything, of which much or little is known.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from inbox import (
    acks,
    agents,
    bell,
    claims,
    deadletters,
    leases,
    poll,
    presence,
    receipts,
    retention,
    send,
    services,
    tasks,
    turn,
)
from inbox.claims import Claim, Wanted
from inbox.errors import Problem
from inbox.ids import written
from inbox.names import Actor
from inbox.poll import Filter
from inbox.send import Letter
from models import clock, database, graves, logs, migrations, pages, sweepers, sweeping, watching
from models.logs import Ages
from models.statement import Statement
from tests import postgres
from tests.models import plans, rows
from tests.models.plans import ROWS, Scan

REALM = "main"
OPERATOR = Actor(REALM)
ANY = Wanted()

NAMES, FACTS, DEDUP = "messages_names", "messages_facts", "messages_dedup"
READY, READY_TASK, LATER = "messages_ready", "messages_ready_task", "messages_later"
INBOX, DEAD, EXPIRY = "messages_inbox", "messages_dead", "messages_expiry"
THREAD, OPENERS, COPIES = "messages_thread", "messages_openers", "messages_copies"
DEADLINES, DUE, ENDS = "messages_deadlines", "messages_due", "messages_fact_ends"
TASK_AGENTS, LATER_TASK = "messages_task_agents", "messages_later_task"
CLAIMING = {NAMES, READY, LATER, FACTS, ROWS}

SENDING = {NAMES, THREAD, FACTS}
NEWEST = {NAMES, READY, LATER, ROWS}  # beside every page: whose the inbox is, its newest message


class World(NamedTuple):
    """Some messages that there are, by seq."""

    inbox: str  # one to look into
    first: int  # the first of the inbox `big`, ready
    opened: int  # the first of the thread `long`


class Verb(NamedTuple):
    """Something that the rules do with the store, and the indexes that it takes."""

    work: Callable[[World], Any]
    indexes: set[str]
    daily: bool = True  # costs the same however much there is
    direct: bool = False  # what it does depends on what is ready and due


def as_(name: str) -> Actor:
    """An agent of the realm."""
    return Actor(REALM, name)


def letter(to: str, type: str = "request", **given: Any) -> Letter:
    """A message to be sent."""
    return Letter(to=to, type=type, content=b"1", **given)


def refused(work: Callable[[], Any]) -> None:
    """Do what the rules refuse."""
    with pytest.raises(Problem):
        work()


def by_alias(work: Callable[[str], Any]) -> None:
    """Do something under another name of an agent."""
    registered("agent-1", aliases=["new-1"])
    work("new-1")


def flushed() -> None:
    """Write down that two agents were heard of, one of whom has no name on record."""
    presence.note(REALM, "agent-1")
    presence.note(REALM, "unheard-of")
    presence.flush()
    presence.forget()


def registered(name: str, **fields: Any) -> None:
    """Register an agent."""
    agents.register(as_(name), name, fields)


def claimed(inbox: str, wanted: Wanted = ANY, limit: int = 1) -> list[Any]:
    """Claim from an inbox."""
    return claims.claim(as_(inbox), inbox, Claim(wanted, limit))


def held() -> None:
    """Claim, and do with it all that its holder may."""
    first, second, third = claimed("big", limit=3)
    acks.ack(as_("big"), first.id, first.receipt)
    leases.extend(as_("big"), second.id, second.receipt, 60)
    leases.release(as_("big"), second.id, second.receipt, None, "tired")
    acks.ack_many(as_("big"), "big", [third.receipt])


def redriven() -> None:
    """Bury a message and let it be claimed again."""
    (first,) = claimed("big")
    database.current().execute_sql("UPDATE messages SET attempts = 5 WHERE attempts = 1")
    leases.release(as_("big"), first.id, first.receipt, None, "tired")
    deadletters.redrive(as_("big"), first.id)
    deadletters.redrive_all(as_("big"), "big")


def swept() -> None:
    """Ask for all that the sweeper asks for."""
    sweepers.leased()
    sweepers.lease("me", 0, {})
    sweeping.turn(REALM, sweeping.due(REALM, 10) or [1], 0, None)
    graves.lapsed_out(REALM, sweeping.due(REALM, 10) or [1])
    graves.expired(REALM, sweeping.expired(REALM, 10) or [1], "expired")
    sweeping.ended(REALM, 10)
    sweeping.scan(0, 10)
    sweeping.openers(REALM, 0, 10)
    retention.may_go(REALM, "task-1")
    retention.remove_some(REALM, "some-1")
    sweeping.unread_in(REALM, "agent-1", 10)
    sweeping.empty(REALM, "agent-1", 10, 0)
    sweeping.forget(REALM, "agent-1", ["seen"])
    ages = Ages(clock.now(), clock.now(), clock.now())
    old = logs.posts(REALM, "long", 0, ages, 10)
    logs.delete(REALM, "long", [post.seq for post in old] or [1], ages, 10)


VERBS = {
    "send to a known agent": Verb(
        lambda world: send.send(as_("agent-0"), letter("agent-1")), SENDING
    ),
    "send to an unknown agent": Verb(
        lambda world: send.send(as_("agent-0"), letter("agent-1x")),
        SENDING | {ROWS, DEDUP},
        daily=False,
    ),
    "send to the long thread": Verb(
        lambda world: send.send(as_("agent-0"), letter("agent-1", task_id="long")), SENDING
    ),
    "reply": Verb(
        lambda world: send.send(as_("agent-0"), letter("agent-1", reply_to=world.opened)),
        SENDING | {ROWS},
    ),
    "done": Verb(
        lambda world: send.send(as_("agent-0"), letter("agent-1", type="done", task_id="long")),
        SENDING,
    ),
    "done in reply": Verb(
        lambda world: send.send(
            as_("agent-0"), letter("agent-1", type="done", reply_to=world.opened)
        ),
        SENDING | {ROWS},
    ),
    "send with a new key": Verb(
        lambda world: send.send(as_("agent-0"), letter("agent-1", idempotency_key="new")), SENDING
    ),
    "send to a closed task": Verb(
        lambda world: refused(
            lambda: send.send(as_("agent-0"), letter("agent-1", task_id="old-0"))
        ),
        SENDING | {ROWS, DEDUP},
    ),
    "send many": Verb(
        lambda world: send.send_many(as_("agent-0"), [letter("agent-1"), letter("agent-0")]),
        SENDING,
    ),
    "send together": Verb(
        lambda world: send.send_each(
            [(as_("agent-0"), letter("agent-1")), (as_("agent-1"), letter("agent-0"))]
        ),
        SENDING,
    ),
    "PostgreSQL: poll together": Verb(
        lambda world: pages.pages(
            REALM,
            [pages.Asked(name, name, Filter(), 10) for name in ("big", "agent-0", "agent-1")],
        ),
        NEWEST,
    ),
    "PostgreSQL: poll of tasks together": Verb(
        lambda world: pages.pages(
            REALM,
            [
                pages.Asked(name, name, Filter(task_ids=("task-1", "task-2")), 10)
                for name in ("big", "agent-0")
            ],
        ),
        NEWEST | {READY_TASK},
    ),
    "ack together": Verb(
        lambda world: acks.ack_each(
            [(as_("big"), written(world.first + place), None) for place in range(2)]
        ),
        {NAMES, ROWS},
    ),
    "poll by an alias": Verb(
        lambda world: by_alias(lambda name: poll.poll(OPERATOR, name, Filter(), 10)),
        NEWEST | {FACTS, INBOX},
    ),
    "count by an alias": Verb(
        lambda world: by_alias(lambda name: poll.count(OPERATOR, name)),
        {NAMES, READY, LATER, EXPIRY, FACTS, INBOX, ROWS},
        daily=False,
    ),
    "ack by an alias": Verb(
        lambda world: by_alias(
            lambda name: refused(lambda: acks.ack(as_(name), written(world.first)))
        ),
        {NAMES, FACTS, INBOX, ROWS},
    ),
    "count": Verb(
        lambda world: poll.count(OPERATOR, "big"), {NAMES, READY, LATER, EXPIRY, DEAD}, daily=False
    ),
    "count of an empty inbox": Verb(
        lambda world: poll.count(OPERATOR, "nobody"), {NAMES, READY, LATER, EXPIRY, DEAD}
    ),
    "ack": Verb(lambda world: acks.ack(as_("big"), written(world.first)), {NAMES, ROWS}),
    "ack again": Verb(lambda world: acks.ack(OPERATOR, written(world.opened)), {NAMES, ROWS}),
    "ack many": Verb(
        lambda world: acks.ack_many(
            as_("big"), "big", [written(world.first), written(world.opened), written(1 << 40)]
        ),
        {NAMES, ROWS},
    ),
    "receipt": Verb(
        lambda world: receipts.receipt(as_("big"), written(world.first)), {NAMES, ROWS}
    ),
    "register": Verb(lambda world: registered("new", description="x"), {NAMES, FACTS}),
    "register with aliases": Verb(
        lambda world: registered("agent-1", aliases=["new-1", "new-2"]), {NAMES, FACTS, INBOX, ROWS}
    ),
    "read an agent": Verb(lambda world: agents.read(OPERATOR, "agent-1"), {NAMES, FACTS}),
    "list agents": Verb(
        lambda world: agents.listed(OPERATOR, None, None, None, 2), {FACTS}, daily=False
    ),
    "search agents": Verb(
        lambda world: agents.listed(OPERATOR, "tag", "text", "agent-0", 2), {FACTS}, daily=False
    ),
    "retire": Verb(
        lambda world: agents.retire(as_("agent-1"), "agent-1"),
        {NAMES, FACTS, INBOX, EXPIRY, ROWS},
        daily=False,
    ),
    "retire and come back": Verb(
        lambda world: (agents.retire(as_("agent-1"), "agent-1"), registered("agent-1")),
        {NAMES, FACTS, INBOX, EXPIRY, ROWS},
        daily=False,
    ),
    "list tasks": Verb(
        lambda world: tasks.listed(as_("agent-0"), None, None, None, 10),
        {NAMES, OPENERS, THREAD, FACTS},
        daily=False,
    ),
    "list tasks of an agent": Verb(
        lambda world: tasks.listed(OPERATOR, "open", "agent-1", written(world.opened), 10),
        {NAMES, OPENERS, THREAD, FACTS},
        daily=False,
    ),
    "read a task": Verb(lambda world: tasks.read(OPERATOR, "task-1"), {THREAD, FACTS}),
    "history": Verb(
        lambda world: tasks.history(as_("agent-0"), "long", None, 10), {NAMES, THREAD, ROWS}
    ),
    "history after": Verb(
        lambda world: tasks.history(OPERATOR, "long", written(world.opened + 5), 10),
        {THREAD, ROWS},
    ),
    "close a task": Verb(
        lambda world: tasks.close(OPERATOR, "task-1"), {THREAD, FACTS, TASK_AGENTS}
    ),
    "claim": Verb(lambda world: claimed("big"), CLAIMING),
    "claim from an empty inbox": Verb(lambda world: claimed("nobody"), CLAIMING),
    "claim many": Verb(lambda world: claimed("big", limit=10), CLAIMING),
    "claim by task": Verb(
        lambda world: claimed("big", Wanted(task_id="task-1")),
        {NAMES, READY_TASK, LATER_TASK, FACTS, ROWS},
    ),
    "claim by type": Verb(lambda world: claimed("big", Wanted(types=("request",))), CLAIMING),
    "claim whole tasks": Verb(
        lambda world: claimed("big", Wanted(exclusive=True)),
        CLAIMING | {READY_TASK, LATER_TASK},
        daily=False,
    ),
    "ack, extend and release": Verb(lambda world: held(), CLAIMING),
    "redrive": Verb(
        lambda world: redriven(), CLAIMING | {NAMES, DEAD, READY, LATER, EXPIRY}, daily=False
    ),
    "ask a service": Verb(
        lambda world: services.request(as_("agent-0"), "new", letter("service:new")),
        SENDING | {READY_TASK, READY},
        daily=False,
    ),
    "read a service": Verb(
        lambda world: (
            services.declare(OPERATOR, "new", {}),
            services.close(OPERATOR, "new"),
            services.listed(OPERATOR, None, 10),
        ),
        {NAMES, FACTS, READY, READY_TASK, LATER, EXPIRY, DEAD, INBOX, ROWS},
        daily=False,
    ),
    "work for a service": Verb(
        lambda world: services.work(as_("agent-0"), "new", {}), {NAMES, FACTS, READY}, daily=False
    ),
    "sweep": Verb(
        lambda world: swept(),
        {DUE, DEADLINES, ENDS, OPENERS, THREAD, INBOX, COPIES, FACTS, ROWS},
        daily=False,
    ),
    "note presence": Verb(lambda world: flushed(), {NAMES}),
    "watch the end of the table": Verb(lambda world: watching.above(watching.newest()), {ROWS}),
    "watch an inbox": Verb(lambda world: watching.unread(REALM, ["big"]), {READY, LATER}),
    "replay": Verb(
        lambda world: [
            send.send(as_("agent-0"), letter("agent-1", idempotency_key="twice")) for _ in "12"
        ],
        SENDING | {ROWS, DEDUP},
    ),
}

LISTS = {"unread": READY, "acked": INBOX, "dead": DEAD, "all": INBOX}
# Where the order does not matter, one index of an inbox's unread messages is as good as another.
COUNTING = {"count", "count of an empty inbox", "count by an alias", "watch an inbox"}
COUNTING |= {"redrive", "ask a service", "read a service", "work for a service"}
COUNTED = {NAMES, READY, READY_TASK, LATER, EXPIRY, DEAD, FACTS, INBOX, ROWS}
FILTERS = list(itertools.product((0, 1, 3), (False, True), (False, True), (False, True)))


def looks() -> Iterator[tuple[str, Verb]]:
    """A look into the inbox for every status and every set of filters."""
    for status, index in LISTS.items():
        for many, by_type, by_sender, after in FILTERS:
            wanted = Filter(
                status,
                tuple(f"task-{number}" for number in range(1, many + 1)),
                ("request", "done") if by_type else (),
                "alice" if by_sender else None,
            )
            words = (
                f"poll {status}",
                f"of {many} tasks" * bool(many),
                "by type" * by_type,
                "by sender" * by_sender,
                "after" * after,
            )
            found = READY_TASK if status == "unread" and many else index

            def look(world: World, wanted: Filter = wanted, after: bool = after) -> Any:
                place = world.first + 5 if after else None
                return poll.poll(OPERATOR, world.inbox, wanted._replace(after=place), 10)

            # What no index is sorted by is looked for in the whole inbox.
            daily = status == "dead" or not (by_type or by_sender or index == INBOX)
            # SQLite reads what is ready by its index, unless something is due as well.
            indexes, direct = NEWEST | {found}, status == "unread"
            yield " ".join(filter(None, words)), Verb(look, indexes, daily, direct)


VERBS.update(looks())
# Conditions for which there is no index, or none that is not walked past the rest.
UNFIT = (
    "m.content = '2'",
    "m.realm = :realm ORDER BY m.seq LIMIT 1",
    "m.realm = :realm AND m.type = :type AND m.state_key = :state_key AND m.status = 'fact'",
    "m.realm = :realm AND m.seq > 0 AND m.status = 'dead'",
)
DAILY = sorted(name for name, verb in VERBS.items() if verb.daily)


def world() -> World:
    """What the open database holds of what the verbs need."""

    def lowest(column: str, value: str) -> int:
        sql = f"SELECT MIN(seq) FROM messages WHERE {column} = '{value}' AND realm = 'main'"
        return int(database.current().execute_sql(sql).fetchone()[0])

    return World("big", lowest("inbox", "big"), lowest("task_id", "long"))


def all_in_two_inboxes() -> None:
    """Half of the rows in one inbox, half in another, in three threads, from one sender."""
    with database.current().atomic():
        for inbox, task in (("other", "other"), ("big", "long")):
            rows.messages(
                rows.MANY.unread,
                inbox=f"'{inbox}'",
                task_id=f"'{task}'",
                sender="'agent-0'",
                opens="(i = 0)",
                status=rows.UNREAD_OR_ACKED.format(2),
                settled_at=rows.SETTLED.format(2),
            )
        rows.messages(1, inbox="'agent-0'", task_id="'task-1'")
        rows.registered(2)
        rows.facts(1, "closed", inbox="''", state_key="'old-0'")


def undone(work: Callable[[], Any]) -> Any:
    """Do something, undo it, and answer what came of it."""
    database.begin()
    try:
        return work()
    finally:
        database.abandon()
        bell.abandoned()


def plans_of_all() -> dict[str, list[Scan]]:
    """Every way into the table that each verb takes."""
    # What a statement is mostly does not depend on what it finds: a small inbox does.
    there = world()
    small, found = there._replace(inbox="agent-1"), {}
    for name, verb in VERBS.items():
        if name.startswith("PostgreSQL") and database.current().dialect == "sqlite":
            continue  # there it asks nothing
        with plans.recorded() as seen:
            undone(partial(verb.work, small))
            if verb.direct:
                undone(partial(verb.work, there))
                undone(partial(in_the_far_future, partial(verb.work, there)))
        found[name] = [scan for each in seen for scan in plans.scans(*each)]
    return found


def in_the_far_future(work: Callable[[], Any]) -> Any:
    """Do something when all that is delayed now is due."""
    before, clock.travelled = clock.travelled, rows.LATER
    try:
        return work()
    finally:
        clock.travelled = before


def costs_of_daily() -> dict[str, int]:
    """What the database does for each verb that is to cost the same however much there is."""
    there = world()
    return {name: undone(partial(plans.cost, partial(VERBS[name].work, there))) for name in DAILY}


SITUATIONS = (
    "sqlite new",
    "sqlite analyzed",
    "postgresql new",
    "postgresql analyzed",
    "postgresql two inboxes",
    "postgresql two inboxes guessed",
)


@pytest.fixture(scope="module")
def costs_of_few(
    postgres_server: postgres.Server, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, int]]:
    """What each daily verb costs on either database when there is next to nothing in it."""
    found = {}
    with postgres_server.database("taskpost_few") as url:
        for each in (f"sqlite:///{tmp_path_factory.mktemp('few')}/taskpost.db", url):
            turn.open(each)
            rows.load(rows.FEW)
            found[database.current().dialect] = costs_of_daily()
            turn.close()
    return found


@pytest.fixture(scope="module", params=SITUATIONS)
def situation(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    costs_of_few: dict[str, dict[str, int]],  # has a database open for itself
) -> Iterator[str]:
    """A database with a hundred thousand rows, of which more or less is known."""
    if request.param.startswith("sqlite"):
        turn.open(f"sqlite:///{tmp_path_factory.mktemp('plans')}/taskpost.db")
        fill(request.param)
        yield request.param
        turn.close()
    else:
        with request.getfixturevalue("postgres_server").database("taskpost_plans") as url:
            turn.open(url)
            fill(request.param)
            yield request.param
            turn.close()


def fill(situation: str) -> None:
    """Bring the open database into a situation."""
    if situation == "postgresql new":
        # The plans are those of an almost empty table, and nobody comes to mend them.
        database.current().execute_sql("ALTER TABLE messages SET (autovacuum_enabled = off)")
        rows.load(rows.FEW)
        plans_of_all()
        database.current().execute_sql("DELETE FROM messages")
    if "two inboxes" in situation:
        all_in_two_inboxes()
    else:
        rows.load(rows.MANY)
    if situation.endswith("guessed"):
        # From so few rows that what is rare, as the names are here, is seldom among them.
        database.current().execute_sql("SET default_statistics_target = 1")
    if not situation.endswith("new"):
        rows.analyze()


@pytest.fixture(scope="module")
def plans_found(situation: str) -> dict[str, list[Scan]]:
    """Every way into the table that each verb takes."""
    return plans_of_all()


def test_every_statement_of_every_verb_uses_an_index_that_fits(
    plans_found: dict[str, list[Scan]],
) -> None:
    unfit = {scan: name for name, found in plans_found.items() for scan in found if not scan.fits}
    assert unfit == {}


def test_every_verb_uses_the_indexes_that_are_for_it(plans_found: dict[str, list[Scan]]) -> None:
    wrong = {}
    for name, scans in plans_found.items():
        found = {scan.index for scan in scans}
        if name in COUNTING and found <= COUNTED | VERBS[name].indexes:
            continue
        if found != VERBS[name].indexes:
            wrong[name] = sorted(found ^ VERBS[name].indexes, key=str)
    assert wrong == {}


def test_every_index_is_used(plans_found: dict[str, list[Scan]]) -> None:
    made = {
        sql.partition(" ON ")[0].split()[-1]
        for each in migrations.MIGRATIONS
        for sql in each
        if isinstance(sql, str) and sql.startswith("CREATE")
    }
    assert made | {ROWS} == {scan.index for found in plans_found.values() for scan in found}


def test_a_daily_verb_costs_with_a_hundred_thousand_rows_what_it_costs_with_a_few(
    costs_of_few: dict[str, dict[str, int]], situation: str
) -> None:
    few = costs_of_few[database.current().dialect]
    dear = {
        name: (few[name], cost)
        for name, cost in costs_of_daily().items()
        if cost > 3 * few[name] + 20
    }
    if situation == "postgresql new":
        # Nothing tells the index of a task's messages from that of all, until it is analyzed.
        dear = {name: costs for name, costs in dear.items() if "tasks after" not in name}
    assert dear == {}


@pytest.mark.parametrize("condition", UNFIT)
def test_a_plan_that_does_not_fit_is_seen(situation: str, condition: str) -> None:
    statement = Statement(f"SELECT m.content FROM messages m WHERE {condition}")
    given = {"realm": REALM, "inbox": "big", "state_key": "agent-1", "type": "request"}
    wanted = {name: value for name, value in given.items() if f":{name}" in condition}
    with plans.recorded() as seen:
        database.run(statement, **wanted).fetchone()
    assert [scan for each in seen for scan in plans.scans(*each) if not scan.fits]


def test_a_walk_through_an_inbox_is_seen_in_its_cost(situation: str) -> None:
    nothing = Filter("all", types=("none",))
    walk = plans.cost(lambda: poll.poll(OPERATOR, "big", nothing, 10))
    assert walk > 10 * plans.cost(lambda: poll.poll(OPERATOR, "big", Filter("all"), 10))
