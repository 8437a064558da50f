"""The breaker: while the database is known to be away, requests are refused at once.

Otherwise each would wait for its own deadline. A thread tries the database
until it answers; only then are requests let through again.
"""

import threading
import time

from inbox.errors import StoreUnavailable
from models import database
from models.errors import StoreError

PAUSE = 0.25  # seconds between two tries

_away = threading.Event()
_lock = threading.Lock()


def check() -> None:
    """Raise ``StoreUnavailable`` while the database is known to be away."""
    if _away.is_set():
        raise StoreUnavailable("The database is away; it is being tried until it answers.")


def trip(error: StoreError) -> None:
    """Refuse requests from now on, until the database answers."""
    if not database.current().remote:
        return  # a full disk is no reason to refuse a read
    with _lock:
        if not _away.is_set():
            _away.set()
            threading.Thread(target=_probe, name="probe", daemon=True).start()


def reset() -> None:
    """Let requests through, whatever was known."""
    _away.clear()


def _probe() -> None:
    try:
        while _away.is_set() and not _answers():
            time.sleep(PAUSE)
    finally:
        reset()  # whatever has ended the thread: without it nobody would ever be let through


def _answers() -> bool:
    try:
        database.probe()
    except StoreError:
        return False
    return True
