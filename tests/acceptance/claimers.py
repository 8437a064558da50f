"""Claimers that run as processes of their own and may be killed at any moment.

    python -m tests.acceptance.claimers PORT COUNT FOLDER

Forks COUNT claimers, prints their process ids, and waits for them. Each
writes what it was told to a file of its own in FOLDER, line by line, before
it does the next thing; a claimer ends when the file ``stop`` is there.
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from tests.acceptance.clients import Client

LEASE = 4  # seconds
LIMIT = 5


def main() -> None:
    """Fork, tell who was born, wait."""
    port, count, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    born = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            claim(port, folder)
            os._exit(0)
        born.append(child)
    print(*born, flush=True)
    for child in born:
        os.waitpid(child, 0)


def claim(port: int, folder: Path) -> None:
    """Claim, work, acknowledge; now and then give something back."""
    random.seed(os.getpid())
    log = (folder / f"{os.getpid()}.log").open("a", buffering=1)
    with Client(port, "pool") as client:
        while not (folder / "stop").exists():
            body = {"limit": LIMIT, "lease_seconds": LEASE, "worker": str(os.getpid())}
            for message in asked(client, "/agents/pool/inbox/claim", body, log)["messages"]:
                note(log, "claimed", message["content"], message["attempts"])
                work(client, message, log)


def work(client: Client, message: Any, log: Any) -> None:
    """One message: done, or given back one time in fifty."""
    verb = "release" if random.random() < 0.02 else "ack"
    body = {"receipt": message["receipt"], "from": "pool"}
    if verb == "release":
        body["delay_seconds"] = 0
    answer = asked(client, f"/inbox/messages/{message['id']}/{verb}", body, log)
    note(log, answer.get("code", verb), message["content"], message["attempts"])


def asked(client: Client, path: str, body: Any, log: Any) -> Any:
    """The answer; one that no server should give is noted."""
    status, answer = client.call("POST", path, body)
    if status not in (200, 409):
        note(log, "unexpected", status, answer.get("code"))
        time.sleep(0.1)
        return {"messages": [], **answer}
    return answer


def note(log: Any, *said: Any) -> None:
    """A line that a kill -9 leaves whole or leaves out."""
    log.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
