"""What gunicorn reads: its settings, and ``create``, which it calls in each worker.

    gunicorn -c wsgi.py 'wsgi:create()'

Nothing is opened while gunicorn's own process reads this file: connections do
not survive a fork.
"""

import os
import sys

from gunicorn.arbiter import Arbiter

import app
from inbox import settings, turn

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

_house: list[app.Housekeeping] = []


def create() -> app.Service:
    """The application of this worker process; ends the process when it cannot start."""
    try:
        service = app.create_app(read)
    except turn.Unusable as error:
        print(f"taskpost: {error}", file=sys.stderr)
        sys.exit(Arbiter.APP_LOAD_ERROR)
    _house.append(app.keep_house())
    return service


def worker_exit(server: object, worker: object) -> None:
    """Gunicorn's hook: the worker is about to end."""
    for house in _house:
        house.stop()
