"""Agents for a time: registered with ``ttl`` or ``task_id``, they go when that ends.

Only the terms are kept here; ``inbox.lifetimes`` brings the end about.
"""

from collections.abc import Mapping
from typing import Any

from inbox.errors import TaskClosed
from models import clock, lifetimes, threads


def bind(realm: str, name: str, fields: Mapping[str, Any], revived: bool) -> None:
    """Let an agent end as its registration says; what that leaves out stays as it was.

    One that had ended and comes back does so for good, unless it says again
    for how long. Raises ``TaskClosed``.
    """
    if not revived and "ttl" not in fields and "task_id" not in fields:
        return
    task_id, until = (None, None) if revived else lifetimes.bound(realm, name)
    task_id = fields.get("task_id", task_id)
    if task_id is not None and threads.closed(realm, [task_id]):
        raise TaskClosed(f"The task {task_id} has been closed.")
    if "ttl" in fields:
        ttl = fields["ttl"]
        until = None if ttl is None else clock.now() + round(ttl * 1000)
    lifetimes.bind(realm, name, task_id, until)
