"""schemathesis against the running server: every operation answers as the contract says.

Its cases are made from openapi.yaml, good ones and bad ones, the same in every
run; it follows what answers refer to, and holds statuses, headers, types and
bodies of all answers against the contract.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from api.openapi import FILE
from api.routes import ROUTES
from tests.acceptance.server import PROJECT, Server, running

# What these do well depends on a message in one state, which the run may or may not come upon.
STATEFUL = {f"/inbox/messages/{{message}}/{verb}" for verb in ("ack", "redrive", "discard")}
HOOKS = "tests.acceptance.hooks"
SETTINGS = """
# There is nothing to wait for here, only time to lose.
[parameters]
"query.wait" = 0
"query.timeout" = 0

# To follow what answers refer to finds more than to make up more.
[phases.stateful.generation]
max-examples = 20

# A message may fit the contract and still not be sent, for what is in the store.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 403, 404, 409, 422]

# A task may be called "x/close", so that path takes GET as well.
[[operations]]
include-path = "/tasks/{task_id}/close"
checks.allow_header_conformance.enabled = false
"""
OPTIONS = (
    "--phases=examples,coverage,fuzzing,stateful",
    "--max-examples=5",
    "--generation-deterministic",
    "--continue-on-failure",
    "--request-timeout=10",
)


def test_every_operation_answers_as_the_contract_says(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(SETTINGS)
    with running(database_url) as server:
        done = schemathesis(server, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    assert {line["level"] for line in lines} == {"info"}
    answered = {line.get("route") for line in lines if line.get("status", 500) < 400}
    assert answered >= {route.pattern for route in ROUTES} - STATEFUL


def schemathesis(server: Server, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it against a server; what it says."""
    command = Path(sys.executable).with_name("schemathesis")
    settings = ("--config-file", folder / "settings.toml")
    return subprocess.run(
        [command, *settings, "run", FILE, "--url", server.url, *OPTIONS],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "SCHEMATHESIS_HOOKS": HOOKS},
        capture_output=True,
        text=True,
        timeout=300,
    )
