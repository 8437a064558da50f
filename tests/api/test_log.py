"""The log: one line of JSON a request, with its id, and no secret in it."""

import json
import threading
from typing import Any

import pytest

from api import log
from inbox import poll
from tests.actors import Agent, Http, refused


@pytest.mark.parametrize(
    "bad", ["a\r\nSet-Cookie: x=1", "x" * 5000, "", "a b", "ä", "a\0", "<script>", "x" * 65]
)
def test_a_request_id_that_is_none_is_neither_echoed_nor_logged(
    http: Http, capfd: pytest.CaptureFixture, bad: str
) -> None:
    """Case 69."""
    raw = {"HTTP_X_REQUEST_ID": bad}
    ids = {http.get("/nope", environ_overrides=raw).headers["X-Request-Id"] for _ in range(2)}
    assert len(ids) == 2
    logged = capfd.readouterr().err
    for id in ids:
        assert id in logged
        assert id.isalnum()
    assert not bad or bad not in logged


def test_a_request_id_is_on_the_answer_the_problem_and_the_log_line(
    http: Http, capfd: pytest.CaptureFixture
) -> None:
    for path, method in (("/agents", "GET"), ("/agents/x", "GET"), ("/nope", "GET"), ("/", "PUT")):
        answer = http.request(method, path, headers={"X-Request-Id": "My-id_1.2"})
        assert answer.headers.getlist("X-Request-Id") == ["My-id_1.2"]
        assert answer.status_code == 200 or answer.json["request_id"] == "My-id_1.2"
        assert json.loads(capfd.readouterr().err)["request_id"] == "My-id_1.2"


def test_a_line_that_a_thread_adds_while_others_are_written_is_not_lost(
    capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Held(list[Any]):
        def clear(self) -> None:
            if talking.ident is None:
                talking.start()
                talking.join(0.2)  # it may have to wait for us
            super().clear()

    talking = threading.Thread(target=log.write, kwargs={"event": "second"})
    monkeypatch.setattr(log, "_held", Held())
    log.write(event="first")
    talking.join()
    log.write(event="third")
    lines = capfd.readouterr().err.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["first", "second", "third"]


def test_no_log_line_tells_a_secret(
    http: Http, bob: Agent, capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 68: in a header, a query, a path or a body; also when the service itself fails."""

    def fail(*_: Any) -> None:
        raise ValueError("s3cret")

    headers = {"Authorization": "Bearer s3cret", "X-API-Key": "s3cret", "Cookie": "a=s3cret",
               "User-Agent": "s3cret", "Referer": "http://localhost/s3cret"}  # fmt: skip
    body = {"from": "alice", "type": "request", "content": "s3cret", "idempotency_key": "s3cret"}
    for broken in (False, True):
        for path in ("/agents/bob/inbox", "/agents/s3cret/inbox", "/s3cret", "/tasks/s3cret",
                     "/inbox/messages/s3cret/ack"):  # fmt: skip
            http.post(path, body, headers=headers)
            http.post(path, {**body, "s3cret": 1}, headers=headers)
            http.post(path, b'{"s3cret": ', headers=headers)
            http.get(path, query_string={"token": "s3cret"}, headers=headers)
        if broken:
            monkeypatch.setattr(poll, "count", fail)
            answer = http.get("/agents/bob/inbox/count?as=bob", headers=headers)
            assert refused(answer, 500, "internal_error")["retryable"] is False
            assert "s3cret" not in answer.text
    logged = capfd.readouterr().err
    assert "s3cret" not in logged
    lines = [json.loads(line) for line in logged.splitlines()]
    assert [line["error"] for line in lines if line["event"] == "failure"] == ["ValueError"]
    assert {"/agents/{agent}/inbox", None} <= {line.get("route") for line in lines}
