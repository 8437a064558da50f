"""What the acceptance tests share: processes for clients, databases for a file's tests."""

import contextlib
import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests import postgres

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Up to 16 processes to run clients in; the tests of a run share them."""
    with ProcessPoolExecutor(16, mp_context=multiprocessing.get_context("spawn")) as made:
        yield made


@pytest.fixture(scope="module")
def databases(
    postgres_server: postgres.Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], str]]:
    """Makes empty databases, ``sqlite`` or ``postgresql``, that last for the tests of a file."""
    with contextlib.ExitStack() as stack:

        def make(kind: str) -> str:
            if kind == "sqlite":
                return f"sqlite:///{tmp_path_factory.mktemp('database')}/taskpost.db"
            return stack.enter_context(postgres_server.database(f"taskpost_{next(_numbers)}"))

        yield make
