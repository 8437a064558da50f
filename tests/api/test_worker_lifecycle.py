"""The worker as gunicorn's: it starts, stops, reloads, and calls the hooks."""

import contextlib
import itertools
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.api.rawhttp import Server, serving, until

TLS = "certfile = __file__"

HOOKS = """
accesslog = "-"
access_log_format = '%(h)s "%(r)s" %(s)s %(b)s %({x-a}i)s %({content-type}o)s %(L)s'

def note(text):
    print(text, flush=True)

def post_worker_init(worker):
    note("hook init")

def pre_request(worker, request):
    note(f"hook before {request.method} {request.path} {dict(request.headers)['HOST']}")

def post_request(worker, request, environ, answer):
    note(f"hook after {request.path} {environ['PATH_INFO']} {answer.status}")

def worker_exit(server, worker):
    note("hook exit")
"""


def test_sigterm_without_connections_ends_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.terminate() < 5


def test_sigterm_finishes_what_runs_and_what_is_half_here(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.gate("gate")
        running, half, idle, late = (server.client() for _ in range(4))
        idle.get("/")
        half.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha")
        late.get("/")
        running.send("GET /gate/gate HTTP/1.1\r\nHost: a\r\n\r\n")
        server.at_gate("gate")
        server.process.send_signal(signal.SIGTERM)
        late.send("GET /late HTTP/1.1\r\nHost: a\r\n\r\n")  # it could not know
        server.open_gate("gate")
        half.send("lf")
        for client in (running, half, late):
            answer = client.answer()
            assert answer.status == 200
            assert client.ended()
            client.close()
        assert idle.ended()
        assert server.process.wait(10) == 0


def test_sigterm_answers_all_who_have_connected_before(tmp_path: Path) -> None:
    """More than are accepted at once."""
    with serving(tmp_path, "from api import worker; worker.ACCEPTS = 8") as server:
        server.gate("gate")
        with server.client() as running:
            running.send("GET /gate/gate HTTP/1.1\r\nHost: a\r\n\r\n")
            server.at_gate("gate")
            clients = [server.client() for _ in range(40)]
            for client in clients:
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            server.process.send_signal(signal.SIGTERM)
            server.open_gate("gate")
            assert [client.answer().status for client in clients] == [200] * 40
            for client in clients:
                client.close()


def test_sigterm_accepts_nobody_any_more(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha")
        server.process.send_signal(signal.SIGTERM)

        def refused() -> bool:
            try:
                server.client().close()
            except ConnectionRefusedError:
                return True
            return False

        until(refused, "a refusal")
        client.send("lf")
        assert client.answer().json["body"] == "half"


def test_the_grace_ends(tmp_path: Path) -> None:
    with serving(tmp_path, "graceful_timeout = 2") as server, server.client() as client:
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha")
        server.get("/")
        assert 1 < server.terminate() < 5
        assert "Worker exiting" in server.log.read_text()  # it was not killed


def test_sigquit_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.get("/")
        assert server.terminate(signal.SIGQUIT) < 5


def test_max_requests_replaces_the_worker(tmp_path: Path) -> None:
    with serving(tmp_path, "max_requests = 20\nmax_requests_jitter = 5") as server:
        first = server.worker()
        with server.client() as client:
            count = 1
            while client.get("/").headers.get("connection") != "close" and count < 40:
                count += 1
        assert 15 <= count <= 30
        until(lambda: first not in children(server), "the end of the first worker")
        assert server.get("/").status == 200


def children(server: Server) -> list[int]:
    path = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
    return [int(number) for number in Path(path).read_text().split()]


def test_hup_replaces_the_worker_without_a_lost_request(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.client() as client:
        client.get("/")
        first = server.worker()
        server.process.send_signal(signal.SIGHUP)
        answers = 0
        while True:
            answers += 1
            if client.get("/").headers.get("connection") == "close":
                break
        assert client.ended()
        assert answers > 1
        until(lambda: first not in children(server), "the end of the first worker")
        assert server.get("/").status == 200


def test_a_change_of_the_code_reloads_it(tmp_path: Path) -> None:
    module = tmp_path / "changing.py"
    code = 'def app(environ, start):\n    start("200 OK", [])\n    return [b"{}"]\n'
    module.write_text(code.format("old"))
    settings = "reload = True\nreload_engine = 'poll'"
    with serving(tmp_path, settings, app="changing:app") as server:
        assert server.get("/").body == b"old"
        module.write_text(code.format("newer"))
        times = itertools.count(time.time() + 10)

        def changed() -> bool:
            # gunicorn may have had its first look at the file only just now: then it sees a change
            # with the next one.
            later = next(times)
            os.utime(module, (later, later))
            with contextlib.suppress(AssertionError):
                return until(lambda: server.get("/").body == b"newer", "the new code", 3)
            return False

        until(changed, "the new code")


def test_hooks_and_the_access_log_see_each_request(tmp_path: Path) -> None:
    with serving(tmp_path, HOOKS) as server:
        with server.client() as client:
            client.get("/answer?piece=four&header=Content-Type:text/x", "X-A: b")
            client.send("nonsense\r\n\r\n")
            client.answer()
        server.terminate()
        log = server.log.read_text()
    assert log.index("hook init") < log.index("hook before GET /answer test")
    assert log.index("hook before GET /answer test") < log.index(
        "hook after /answer /answer 200 OK"
    )
    line = (
        r'127\.0\.0\.1 "GET /answer\?piece=four&header=Content-Type:text/x HTTP/1.1" 200 4 b text/x'
    )
    assert re.search(line + r" 0\.\d+\n", log)
    assert re.search(r'127\.0\.0\.1 "- - HTTP/1.1" 400 \d+ - application/problem\+json', log)
    assert "hook exit" in log


def test_a_hook_that_fails_is_logged(tmp_path: Path) -> None:
    failing = "def post_request(worker, request, environ, answer): raise RuntimeError('hooked')"
    with serving(tmp_path, failing) as server, server.client() as client:
        assert client.get("/").status == 200
        assert client.get("/").status == 200
        until(lambda: "RuntimeError: hooked" in server.log.read_text(), "a line in the log")


def test_the_heartbeat_keeps_an_idle_worker_alive(tmp_path: Path) -> None:
    with serving(tmp_path, "timeout = 1") as server, server.client() as client:
        client.get("/")
        first = server.worker()
        assert client.silent(1.5)
        assert client.get("/").status == 200
        assert server.worker() == first
        # and a worker that hangs is replaced
        server.gate("gate")
        client.send("GET /gate/gate HTTP/1.1\r\nHost: a\r\n\r\n")
        until(lambda: children(server) and children(server)[0] != first, "another worker")
        assert server.get("/").status == 200


def test_a_worker_whose_master_is_gone_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        worker = server.worker()
        state = Path(f"/proc/{worker}/stat")
        server.process.kill()
        server.process.wait()
        try:
            until(lambda: not state.exists() or " Z " in state.read_text(), "the worker's end")
        except AssertionError:
            os.kill(worker, signal.SIGKILL)  # nobody else would
            raise


def test_what_it_cannot_do_it_does_not_pretend_to(tmp_path: Path) -> None:
    # gunicorn would start, and the worker would speak plain HTTP.
    with pytest.raises(AssertionError, match="LoopWorker speaks no TLS"), serving(tmp_path, TLS):
        pass
