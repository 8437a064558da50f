"""The sweep: old rows are made as they should be, and the report holds both sides."""

import sqlite3
from pathlib import Path

from bench import goals, growth, report, sweeps
from bench.report import Run
from bench.sweeps import Sends, Sweep


def test_old_rows_are_like_the_sample_but_older(tmp_path: Path) -> None:
    file = tmp_path / "some.db"
    with sqlite3.connect(file) as database:
        database.execute(
            "CREATE TABLE messages (seq INTEGER PRIMARY KEY, inbox, task_id, opens, status, sender,"
            " created_at, settled_at)"
        )
        database.execute(
            "INSERT INTO messages VALUES (1, 'history', 't', 1, 'acked', 'bench', 900000000,"
            " 900000001)"
        )
    growth.insert(f"sqlite:///{file}", 40, sweeps.OLD)
    rows = database.execute(
        "SELECT inbox, task_id, sender, created_at, settled_at FROM messages WHERE seq > 1"
    ).fetchall()
    database.close()
    assert len(rows) == 40
    assert {row[2:] for row in rows} == {("bench", 727200000, 727200001)}
    assert len({row[1] for row in rows}) == 6, "eight rows have a task in common"


def test_a_sweep_is_judged_by_the_p99_of_sends() -> None:
    run = Run("taskpost", {"taskpost": "Taskpost"})
    run.sweeps.append(Sweep(1000, 500, 2.0, Sends(900, 1.0, 4.0), Sends(600, 2.0, 10.0)))
    text = report.text(run)
    assert "500 in 2 s, 250 a second. p99 during / before: 2.50." in text
    assert "| during |" in text
    goal = next(line for line in goals.text(run).splitlines() if "sweep" in line)
    assert goal.split()[-4:] == ["2.50", "|", "no", "|"]
