"""The time, in milliseconds since the epoch.

Time enters SQL as a parameter, so that every statement of a verb has the same
one. On PostgreSQL each process adds its offset to the database's clock, so
that all servers of one database agree; tests move ``travelled``.
"""

import time

RESYNC_SECONDS = 30.0

offset = 0  # the database's clock minus ours; kept by models.postgres
travelled = 0  # how far a test has moved the clock


def now() -> int:
    """The present, in ms since the epoch, by the database's clock."""
    return time.time_ns() // 1_000_000 + offset + travelled
