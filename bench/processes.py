"""What the kernel knows of processes: their CPU time, their memory, who listens on a port."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> Iterator[int]:
    """A process and all below it that are alive."""
    yield root
    for thread in _entries(Path(f"/proc/{root}/task")):
        for child in _text(thread / "children").split():
            yield from tree(int(child))


def cpu(root: int) -> float:
    """Seconds of CPU that a process and all below it have taken, ended children included."""
    total = 0
    for pid in tree(root):
        fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15])  # utime stime cutime cstime
    return total / TICK


def memory(root: int) -> int:
    """Bytes of memory of a process and all below it; what they share is counted once."""
    total = 0
    for pid in tree(root):
        for line in _text(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def listening(port: int) -> list[int]:
    """The processes that listen on a TCP port of this machine, as far as we may look."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _text(Path(table)).splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return [pid for pid in _all() if inodes & set(_links(pid))]


def roots(pids: list[int]) -> tuple[int, ...]:
    """Of these processes, the ones that are below none of the others."""
    below = {child for pid in pids for child in tree(pid) if child != pid}
    return tuple(pid for pid in pids if pid not in below)


def _all() -> list[int]:
    return [int(entry.name) for entry in _entries(Path("/proc")) if entry.name.isdigit()]


def _links(pid: int) -> Iterator[str]:
    for descriptor in _entries(Path(f"/proc/{pid}/fd")):
        with contextlib.suppress(OSError):  # closed while we look
            yield os.readlink(descriptor)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # ended while we look, or not ours to see
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
