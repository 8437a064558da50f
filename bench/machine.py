"""What the numbers depend on: the machine, the versions, the date."""

import datetime
import os
import platform
import shutil
import sqlite3
import subprocess
from importlib.metadata import version
from pathlib import Path
from statistics import median

import psycopg2

from bench.client import now
from bench.servers import Yard

LOAD = os.getloadavg()[0]  # before anything is started


def facts(yard: Yard, mode: str, keys: list[str]) -> list[str]:
    """Lines about this machine and what runs on it."""
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [
        f"{today}, {mode}",
        f"{os.cpu_count()} cores, {_cpu()}, Linux {platform.release()}; {_busy()}",
        f"data on {_filesystem(yard.folder)}; a 4 KiB write and fsync there takes"
        f" {_fsync(yard.folder):.0f} us",
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, gunicorn"
        f" {version('gunicorn')}, Flask {version('flask')}",
    ]
    if any("pg" in key for key in keys):
        lines.append(f"PostgreSQL {_postgres(yard)}, on the same machine, its own defaults")
    if "parley" in keys:
        lines.append(f"Parley {_parley(yard.parley)}, one process, SQLite, no tokens")
    if "redis" in keys:
        lines.append(_said("redis-server", "--version").split(" sha=")[0])
    return lines


def _busy() -> str:
    """What else the machine was doing when all this began."""
    if LOAD >= 0.7:
        return f"**busy with other things (load {LOAD:.1f} before): these numbers are too low**"
    return f"load {LOAD:.1f} before"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _filesystem(folder: Path) -> str:
    """The kind of file system that a folder is on: on tmpfs an fsync costs nothing."""
    best, kind = "", "?"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, found, *_ = line.split()
        if str(folder).startswith(place) and len(place) >= len(best):
            best, kind = place, found
    return kind


def _fsync(folder: Path) -> float:
    """Microseconds that appending 4 KiB and waiting for the disk takes, the median of many."""
    times = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(101):
            began = now()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(now() - began)
    return median(times) * 1e6


def _postgres(yard: Yard) -> str:
    connection = psycopg2.connect(yard.postgres.url())
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version")
            return str(cursor.fetchone()[0])
    finally:
        connection.close()


def _parley(binary: str) -> str:
    python = Path(shutil.which(binary) or binary).with_name("python")
    code = "import importlib.metadata as m; print(m.version('parley-agents'))"
    return _said(str(python), "-c", code)


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
