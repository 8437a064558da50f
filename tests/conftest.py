"""What all tests share: both databases, the service behind a client, actors, a clock to move."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from api.service import Service
from inbox import bell, presence, turn
from inbox.sweeper import Sweeper
from models import clock
from tests import postgres
from tests.actors import Agent, Http

DATABASES = ("sqlite", "postgresql")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the tests of many processes go on, in seconds."""
    parser.addoption("--sqlite-seconds", type=float, default=30)
    parser.addoption("--postgresql-seconds", type=float, default=10)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A PostgreSQL server for the whole run."""
    with postgres.server() as running:
        yield running


@pytest.fixture(scope="session")
def postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """A database of it that tests share, emptied for each."""
    with postgres_server.database("taskpost_tests") as url:
        yield url


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database: every test that takes this runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/taskpost.db"
    url = str(request.getfixturevalue("postgres_url"))
    turn.open(url)
    postgres.empty()
    turn.close()
    return url


@pytest.fixture
def store(database_url: str) -> Iterator[str]:
    """The open database's URL; closed at the end of the test."""
    turn.open(database_url)
    presence.forget()
    yield database_url
    turn.close()


@pytest.fixture
def http(store: str) -> Http:
    """The service in this process; every answer is held against the contract."""
    return Http(Service(1 << 20))


@pytest.fixture
def agent(http: Http) -> Callable[[str], Agent]:
    """Makes actors: ``alice = agent("alice")``."""
    return lambda name: Agent(http, name)


@pytest.fixture
def alice(http: Http) -> Agent:
    """An agent that has not registered."""
    return Agent(http, "alice")


@pytest.fixture
def bob(http: Http) -> Agent:
    """An agent that has registered."""
    actor = Agent(http, "bob")
    actor.register()
    return actor


@pytest.fixture
def travel() -> Iterator[Callable[[float], None]]:
    """Moves the clock by some seconds; it is back at the end of the test."""

    def move(seconds: float) -> None:
        clock.travelled += round(seconds * 1000)

    yield move
    clock.travelled = 0


@pytest.fixture
def sweep(store: str) -> Callable[[], None]:
    """Lets the sweeper do a round, with nothing of it left undone."""
    sweeper = Sweeper(lambda problem: pytest.fail(problem.code))

    def round() -> None:
        assert sweeper.round()

    return round


@pytest.fixture
def later() -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Runs something in a thread once somebody waits."""
    threads = []

    def start(work: Callable[[], Any]) -> None:
        def run() -> None:
            deadline = time.monotonic() + 10
            while not bell.waited_for() and time.monotonic() < deadline:
                threading.Event().wait(0.002)
            work()

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
