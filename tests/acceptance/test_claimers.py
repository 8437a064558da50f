"""Fifty claimers in several processes, a third of them killed at random: each message once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.claimers import LIMIT
from tests.acceptance.clients import Client
from tests.acceptance.server import PROJECT, running

LAUNCHERS, EACH = 5, 10
MESSAGES = 5000
KILLED = LAUNCHERS * EACH // 3
INBOX = "/agents/pool/inbox"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the claimers write; at the end none is left."""
    made = tmp_path / "claimers"
    made.mkdir()
    yield made
    (made / "stop").touch()


def start(port: int, folder: Path) -> tuple[list[subprocess.Popen[str]], list[int]]:
    """The launchers, and the process ids of all claimers."""
    command = [sys.executable, "-m", "tests.acceptance.claimers", str(port), str(EACH), str(folder)]
    launchers = [
        subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
        for _ in range(LAUNCHERS)
    ]
    born = [int(pid) for each in launchers for pid in each.stdout.readline().split()]  # type: ignore[union-attr]
    return launchers, born


def test_every_message_is_done_once_or_bounced_though_a_third_of_the_claimers_die(
    database_url: str, folder: Path
) -> None:
    """Case 28, and 25, 29, 30 and 32 under load."""
    with running(database_url, workers=2) as server, Client(server.port, "boss") as boss:
        fill(boss)
        launchers, born = start(server.port, folder)
        try:
            watch(boss, random.Random(7).sample(born, KILLED))
            (folder / "stop").touch()
            for each in launchers:
                assert each.wait(60) == 0
        finally:
            for each in launchers:
                each.kill()
                each.stdout.close()  # type: ignore[union-attr]
        judge(boss, folder)
        assert '"status":5' not in server.log()


def fill(boss: Client) -> None:
    """What there is to do."""
    for start in range(0, MESSAGES, 500):
        batch = [
            {"to": "pool", "type": "request", "content": start + index} for index in range(500)
        ]
        status, answer = boss.call("POST", "/messages", {"from": "boss", "messages": batch})
        assert status == 201, answer


def counts(boss: Client) -> dict[str, int]:
    status, found = boss.call("GET", f"{INBOX}/count")
    assert status == 200, found
    return found


def watch(boss: Client, doomed: list[int]) -> None:
    """Kill one claimer after the other while work goes on, until all of it is settled."""
    left, ends = MESSAGES, time.monotonic() + 240
    pause = MESSAGES // (len(doomed) + 3)
    while True:
        found = counts(boss)
        # What is not acked is in one of four places; it never becomes more.
        assert found["unread"] + found["delayed"] + found["in_flight"] + found["dead"] <= left
        left = sum(found.values())
        if doomed and left <= MESSAGES - pause * (KILLED - len(doomed) + 1):
            os.kill(doomed.pop(), signal.SIGKILL)
        if left == found["dead"] and not doomed:
            return
        assert time.monotonic() < ends, found
        time.sleep(0.02)


def judge(boss: Client, folder: Path) -> None:
    """Hold what the claimers have noted against what the service says."""
    notes = [json.loads(line) for path in folder.glob("*.log") for line in whole_lines(path)]
    assert not [note for note in notes if note[0] == "unexpected"]
    done = Counter(note[1] for note in notes if note[0] == "ack")
    claims = Counter(note[1] for note in notes if note[0] == "claimed")
    stored = {each["content"]: each for each in boss.pages(f"{INBOX}?status=all")}
    assert len(stored) == MESSAGES
    assert set(done.values()) <= {1}, "something was done twice"
    acked = {content for content, each in stored.items() if each["status"] == "acked"}
    dead = {content for content, each in stored.items() if each["status"] == "dead"}
    assert len(acked) + len(dead) == MESSAGES
    assert set(done) <= acked
    # A claimer that dies may have had one ack accepted, and one claim, that it could not note.
    assert len(acked - set(done)) <= KILLED
    unnoted = sum(each["attempts"] - claims[content] for content, each in stored.items())
    assert 0 <= unnoted <= KILLED * LIMIT
    assert all(each["attempts"] >= claims[content] for content, each in stored.items())
    assert all(stored[content]["attempts"] == 5 for content in dead)
    bounced = [each for each in boss.pages("/agents/boss/inbox") if each["type"] == "failed"]
    assert sorted(each["content"]["message_id"] for each in bounced) == sorted(
        stored[content]["id"] for content in dead
    )


def whole_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
