"""What gunicorn reads: its settings, and ``create``, which it calls in each worker.

    gunicorn -c wsgi.py 'wsgi:create()'

Nothing is opened while gunicorn's own process reads this file: connections do
not survive a fork.
"""

import multiprocessing
import os
import signal
import socket
import sys
import time
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
worker_class = "api.worker.LoopWorker"
threads = read.threads
graceful_timeout = read.graceful_timeout
keepalive = 75
limit_request_line = 8190
control_socket_disable = True
forwarded_allow_ips = ""  # no proxy is believed unless one is configured
accesslog = None  # the service writes its own line a request
proc_name = "taskpost"
if os.access("/dev/shm", os.W_OK):
    worker_tmp_dir = "/dev/shm"  # the heartbeat's file, also where nothing else may be written

_beside: list[Any] = []


def on_starting(arbiter: Arbiter) -> None:
    """Gunicorn's hook: end at once, with one line, when the service could not work."""
    if arbiter.address != [(read.host, read.port)]:
        sys.exit("taskpost: set TASKPOST_HOST and TASKPOST_PORT, not gunicorn's own bind")
    if not (arbiter.master_pid or "LISTEN_FDS" in os.environ):  # else it has inherited its socket
        _try_port()
    # In a process of its own: nothing may be open in this one when it forks.
    trial = multiprocessing.get_context("fork").Process(target=_open)
    trial.start()
    trial.join()
    if trial.exitcode:
        sys.exit(1)


def _try_port() -> None:
    try:
        with socket.socket(socket.AF_INET6 if ":" in read.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((read.host, read.port))
    except OSError as error:
        sys.exit(
            f"taskpost: cannot listen on {bind}: {error.strerror};"
            " stop what listens there, or set TASKPOST_PORT"
        )


def _open() -> app.Service:
    try:
        return app.create_app(read)
    except turn.Unusable as error:
        sys.exit("taskpost: " + " ".join(str(error).split()))


def post_fork(arbiter: Arbiter, worker: object) -> None:
    """Gunicorn's hook: until it has handlers of its own, a worker that is told to end does so.

    With the arbiter's, which it has inherited, it would note the signal and go on.
    """
    ends = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    for number in ends:
        signal.signal(number, lambda number, frame: sys.exit(0))
    while not arbiter.SIG_QUEUE.empty():
        if arbiter.SIG_QUEUE.get() in ends:
            sys.exit(0)


def create() -> app.Service:
    """The application of this worker process.

    A worker that cannot open the database, which was there when the service
    started, ends after a second, and gunicorn starts another.
    """
    try:
        return _open()
    except SystemExit:
        time.sleep(1)
        raise


def post_worker_init(worker: object) -> None:
    """Gunicorn's hook: the worker is about to serve.

    Those who wait are to have their answers when it is told to end: the loop
    worker sees to that itself, another one is made to.
    """
    # Here, not in ``create``: gunicorn runs this file once for the hooks and once for that.
    _beside.extend(app.start_beside())
    if isinstance(worker, app.LoopWorker):
        app.fit(worker, read)
        return
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        signal.signal(number, _dismissing(signal.getsignal(number)))


def _dismissing(ending: Any) -> Any:
    def end(number: int, frame: Any) -> None:
        bell.dismiss()
        ending(number, frame)

    return end


def worker_exit(server: object, worker: object) -> None:
    """Gunicorn's hook: the worker is about to end."""
    for each in _beside:
        each.stop()
