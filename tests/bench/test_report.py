"""The report's arithmetic: medians, ratios pair by pair, costs, goals, and the tables."""

import pytest

from bench import goals, growth, report
from bench.__main__ import DOCUMENT
from bench.operations import OPERATIONS, Measurement, percentiles
from bench.report import Run
from bench.waits import Parked, Wake


def measured(server: str, turn: int, rate: float, **more: object) -> Measurement:
    """A measurement of sends from 32 clients."""
    given = {
        "operation": "send", "clients": 32, "done": int(rate), "p50": 1.0, "p99": 2.0,
        "client_cpu": 0.5, "server_cpu": 0.1, "failures": 0, "failure": "",
    }  # fmt: skip
    return Measurement(server=server, round=turn, rate=rate, **{**given, **more})  # type: ignore[arg-type]


@pytest.fixture
def run() -> Run:
    """Three rounds of two servers, on a machine that became slower and slower."""
    found = Run("taskpost", {"taskpost": "Taskpost", "parley": "Parley"}, ["a machine"])
    for turn, (one, other) in enumerate([(1000, 100), (800, 100), (300, 20)]):
        found.measurements += [measured("taskpost", turn, one), measured("parley", turn, other)]
    return found


def test_ratios_are_taken_within_a_round(run: Run) -> None:
    assert run.ratios("taskpost", "parley", "send", 32) == [10, 8, 15]
    assert run.rate("taskpost", "send", 32) == 800


def test_a_round_that_only_one_server_has_gives_no_ratio(run: Run) -> None:
    run.measurements = [m for m in run.measurements if (m.server, m.round) != ("parley", 1)]
    assert run.ratios("taskpost", "parley", "send", 32) == [10, 15]
    assert run.ratios("taskpost", "parley", "send", 8) == []


def test_the_cost_is_all_cpu_over_all_that_was_done(run: Run) -> None:
    assert run.cost("taskpost", "send", 32) == pytest.approx(0.3 / 2100 * 1e6)
    run.measurements.append(measured("taskpost", 3, 10, server_cpu=None))
    assert run.cost("taskpost", "send", 32) is None


def test_a_spread_shows_median_least_and_most() -> None:
    assert report.spread([10.0, 8.0, 15.0]) == "10.0 (8.00 to 15.0)"
    assert report.spread([1234.0]) == "1,234"
    assert report.spread([]) == "-"


def test_percentiles_are_those_of_the_values() -> None:
    assert percentiles([float(n) for n in range(101)]) == (50, 99)
    assert percentiles([7.0]) == (7, 7)
    assert percentiles([]) == (0, 0)


def test_all_lines_of_a_table_are_equally_long() -> None:
    lines = report.table(["server", "n"], [["Taskpost", "1,000"], ["x", "-"]]).splitlines()
    assert {len(line) for line in lines} == {len(lines[0])}
    assert lines[1] == "| -------- | ----: |"


def test_the_report_holds_every_part_that_was_measured(run: Run) -> None:
    run.wakes.append(Wake("taskpost", 0, 10, 0.9, 0.5, 1.5, 0))
    run.parked.append(Parked("taskpost", 900, 900, 3 * 1024.0, 0.001))
    run.growth.append(growth.Growth("taskpost", "unread", 100_000, "ten", 5000.0, (0.9, 1.1, 1.0)))
    run.measurements.append(measured("parley", 3, 50, failures=2, failure="503 no"))
    text = report.text(run)
    for part in ("a machine", "10.0 (8.00 to 15.0)", "100,000 unread messages in one inbox",
                 "1.00 (0.90 to 1.10)", "### Parked waits", "2 requests failed"):  # fmt: skip
        assert part in text
    assert all(len(line.strip()) > 0 for line in text.split("\n\n"))


def test_goals_are_judged_by_the_medians(run: Run) -> None:
    run.wakes.append(Wake("taskpost", 0, 10, 0.9, 0.5, 2.5, 0))
    text = goals.text(run)
    parley, wake = (
        next(line for line in text.splitlines() if start in line)
        for start in ("times Parley", "wake, idle")
    )
    assert parley.split()[-6:] == ["8", "|", "10.0", "|", "yes", "|"]
    assert wake.split()[-4:] == ["2.50", "|", "no", "|"]
    assert "cycle" not in text, "what was not measured is not judged"


def test_polling_agents_are_extrapolated_from_256_clients(run: Run) -> None:
    run.measurements.append(
        measured("taskpost", 0, 5000, operation="empty", clients=256, done=10_000, server_cpu=0.6)
    )
    assert goals.polling(run) == pytest.approx(10_000 / 3 * 60 / 2e6)


def test_the_section_replaces_what_is_between_the_markers() -> None:
    document = f"before\n{report.BEGIN}\n{report.END}\nafter\n"
    once = report.placed(document, "one \\1\n")
    twice = report.placed(once, "two\n")
    assert twice == f"before\n{report.BEGIN}\n\ntwo\n\n{report.END}\nafter\n"
    with pytest.raises(ValueError, match="has no"):
        report.placed("nothing", "one")


def test_every_operation_is_explained_in_the_document() -> None:
    text = DOCUMENT.read_text()
    for operation in OPERATIONS:
        assert f"| {operation.key} |" in text
