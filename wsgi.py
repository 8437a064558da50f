"""What gunicorn reads: its settings, and ``create``, which it calls in each worker.

    gunicorn -c wsgi.py 'wsgi:create()'

Nothing is opened while gunicorn's own process reads this file: connections do
not survive a fork.
"""

import os
import signal
import socket
import sys
from typing import Any

from gunicorn.arbiter import Arbiter

import app
from inbox import bell, settings, turn

try:
    read = settings.read(os.environ)
except settings.SettingsError as error:
    sys.exit(f"taskpost: {error}")

bind = f"[{read.host}]:{read.port}" if ":" in read.host else f"{read.host}:{read.port}"
workers = read.workers
worker_class = "gthread"
threads = read.threads
graceful_timeout = read.graceful_timeout
keepalive = 75
control_socket_disable = True
forwarded_allow_ips = ""  # no proxy is believed unless one is configured
accesslog = None  # the service writes its own line a request
proc_name = "taskpost"

_beside: list[Any] = []


def on_starting(arbiter: Arbiter) -> None:
    """Gunicorn's hook: end at once, with one line, when it could not listen."""
    if arbiter.address != [(read.host, read.port)]:
        sys.exit("taskpost: set TASKPOST_HOST and TASKPOST_PORT, not gunicorn's own bind")
    if arbiter.master_pid or "LISTEN_FDS" in os.environ:
        return  # it has inherited its socket
    try:
        with socket.socket(socket.AF_INET6 if ":" in read.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((read.host, read.port))
    except OSError as error:
        sys.exit(
            f"taskpost: cannot listen on {bind}: {error.strerror};"
            " stop what listens there, or set TASKPOST_PORT"
        )


def create() -> app.Service:
    """The application of this worker process; ends the process when it cannot start."""
    try:
        service = app.create_app(read)
    except turn.Unusable as error:
        print("taskpost:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(Arbiter.APP_LOAD_ERROR)
    _beside.extend(app.start_beside())
    return service


def post_worker_init(worker: object) -> None:
    """Gunicorn's hook: let those who wait have their answers when the worker is told to end."""
    ending = signal.getsignal(signal.SIGTERM)

    def end(number: int, frame: Any) -> None:
        bell.dismiss()
        ending(number, frame)  # type: ignore[operator,misc]

    signal.signal(signal.SIGTERM, end)


def worker_exit(server: object, worker: object) -> None:
    """Gunicorn's hook: the worker is about to end."""
    for each in _beside:
        each.stop()
