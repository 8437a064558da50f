"""What the acceptance tests share: processes for clients."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest


@pytest.fixture(scope="session")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Up to 16 processes to run clients in; the tests of a run share them."""
    with ProcessPoolExecutor(16, mp_context=multiprocessing.get_context("spawn")) as made:
        yield made
