"""The command ``python -m bench``, which ``make bench`` runs: start, measure, report, stop."""

import argparse
import resource
import signal
import sys
from pathlib import Path

from bench import goals, report, servers
from bench.report import Run
from bench.servers import SERVERS, Yard
from bench.session import FULL, QUICK, STEPS, Session, say

DOCUMENT = servers.PROJECT / "docs" / "performance.md"
REFERENCE = "taskpost"


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(
        "bench", description="Measure Taskpost beside others and beside floors."
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="under three minutes, and rougher")
    add("--servers", type=_some(SERVERS), help=f"only these, of: {', '.join(SERVERS)}")
    add("--operations", type=_some(STEPS), help=f"only these, of: {', '.join(STEPS)}")
    add("--clients", type=_numbers, help="only these numbers of clients")
    add("--rounds", type=int, help="how often everything is measured")
    add("--seconds", type=float, help="how long one measurement takes")
    add(
        "--also",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="a running server that speaks the original API; may be repeated",
    )
    add(
        "--also-header",
        action="append",
        default=[],
        metavar="LINE",
        help="a header for those servers, such as 'Authorization: Bearer ...'",
    )
    add(
        "--postgres-delay-ms",
        type=float,
        default=0.0,
        metavar="MS",
        help="also measure with PostgreSQL so far away, each way",
    )
    add("--parley", default=".venv-parley/bin/parley", help="the command of Parley")
    add("--folder", help="where databases are put; not on a tmpfs")
    add(
        "--write",
        action=argparse.BooleanOptionalAction,
        help=f"put the report into {DOCUMENT.name}; a run of everything does so by itself",
    )
    return parser.parse_args()  # fmt: skip


def _some(known):  # type: ignore[no-untyped-def]
    def read(text: str) -> list[str]:
        asked = [part for part in text.split(",") if part]
        for part in asked:
            if part not in known:
                raise argparse.ArgumentTypeError(f"{part} is none of {', '.join(known)}")
        return asked

    return read


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> int:
    """Run the benchmark; 0 when all that was asked for was measured, 130 when interrupted."""
    asked = arguments()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it came ignored
    run, code = Run(REFERENCE), 130
    yard = Yard(asked.folder, str(Path(asked.parley).absolute()), asked.postgres_delay_ms)
    try:
        session = Session(yard, asked, QUICK if asked.quick else FULL, run)
        session.start()
        session.measure()
        code = 0 if session.whole else 1
    except KeyboardInterrupt:
        say("interrupted; this is what was measured")
    finally:
        yard.close()
    _show(run, asked, code)
    return code


def _show(run: Run, asked: argparse.Namespace, code: int) -> None:
    """Print the report, and put it into the document when it is one of everything."""
    found = report.text(run) + "\n" + goals.text(run)
    print(f"\n{found}")
    chosen = asked.servers or asked.operations or asked.clients
    if code != 130 and (asked.write or (asked.write is None and not chosen)):
        DOCUMENT.write_text(report.placed(DOCUMENT.read_text(), found))
        say(f"written to {DOCUMENT.relative_to(servers.PROJECT)}")


if __name__ == "__main__":
    sys.exit(main())
