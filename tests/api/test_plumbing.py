"""Plumbing: every answer is JSON that says what to do next, and the log tells no secrets."""

from collections.abc import Callable

import pytest

from api.routes import ROUTES
from tests.actors import Agent, Http, ok, refused

PLACES = {"{agent}": "bob", "{message}": "m0000000000000001", "{task_id}": "t"}
PLACES["{service}"] = "translate"
VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "FOO")


def concrete(pattern: str) -> str:
    """A path that fits the pattern."""
    for place, value in PLACES.items():
        pattern = pattern.replace(place, value)
    return pattern


PATHS = sorted({concrete(route.pattern) for route in ROUTES})
READS = [concrete(route.pattern) for route in ROUTES if route.method == "GET"]
UNKNOWN = ["/nope", "/agent", "/agents/bob/inbox/nope", "/%", "/%zz", "/..", "/./agents",
           "/tasks//messages", "/agents/a/b", "/INBOX", "/agents/bob/inbox//"]  # fmt: skip


@pytest.fixture
def reads(alice: Agent, bob: Agent) -> list[str]:
    """Every path that can be read, and there is something to read."""
    sent = alice.send(bob, task_id="t")
    alice.ask("translate")
    return [path.replace(PLACES["{message}"], sent["id"]) for path in READS]


def test_an_unknown_path_is_a_problem_document(http: Http) -> None:
    """Case 66."""
    for path in UNKNOWN:
        for method in ("GET", "POST", "PUT", "OPTIONS"):
            problem = refused(http.request(method, path), 404, "not_found")
            assert problem["hint"] == "GET / lists what there is."


def test_a_method_that_does_not_fit_is_told_which_do(http: Http) -> None:
    """Case 66."""
    for path in PATHS:
        taken = {route.method for route in ROUTES if concrete(route.pattern) == path}
        taken |= {"HEAD"} if "GET" in taken else set()
        for method in set(VERBS) - taken:
            answer = http.request(method, path)
            assert answer.status_code == 405, (method, path)
            assert set(answer.headers["Allow"].split(", ")) == {*taken, "OPTIONS"}
            assert method == "HEAD" or answer.json["code"] == "method_not_allowed"


def test_options_tells_the_methods_and_changes_nothing(bob: Agent, reads: list[str]) -> None:
    """Case 67."""
    for path in {*PATHS, *reads}:
        answer = bob.http.request("OPTIONS", path, headers={"Origin": "https://evil.example"})
        assert (answer.status_code, answer.data) == (204, b""), path
        assert "OPTIONS" in answer.headers["Allow"]
        assert not [name for name, _ in answer.headers if name.lower().startswith("access-")]
    assert (bob.count(), bob.task("t")["state"]) == (1, "open")


def test_head_is_get_without_a_body(http: Http, reads: list[str]) -> None:
    """Case 67."""
    for path in reads:
        get, head = http.get(path), http.request("HEAD", path)
        assert (head.status_code, head.data) == (200, b""), path
        for name in ("Content-Type", "Content-Length", "ETag"):
            assert head.headers.get(name) == get.headers.get(name)
        assert get.headers["Content-Length"] == str(len(get.data))


def test_a_trailing_slash_changes_nothing(http: Http, reads: list[str]) -> None:
    for path in reads:
        first, second = http.get(path), http.get(f"{path.rstrip('/')}/")
        assert (second.status_code, second.data) == (200, first.data), path


def test_sending_with_a_trailing_slash_sends(alice: Agent, bob: Agent, http: Http) -> None:
    ok(http.post("/agents/bob/inbox/", {"from": "alice", "type": "request"}), 201)
    (seen,) = bob.poll()
    ok(http.post(f"/inbox/messages/{seen['id']}/ack/"), 200)
    assert bob.count() == 0


def test_an_empty_path_and_a_websocket_are_not_redirected(http: Http) -> None:
    assert http.client.open("/", environ_overrides={"PATH_INFO": ""}).status_code == 200
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    answer = http.client.open("/agents", headers=upgrade)
    assert answer.status_code < 500
    assert "html" not in answer.content_type


def test_no_path_is_ever_redirected_or_answered_in_html(http: Http) -> None:
    strange = ["//agents", "//evil.example/..", "/agents/../inbox", "/tasks//", "//", "/tasks/a\nb",
               "/agents/bob/inbox/\0", "/\\agents", "/;/", "/?", "/#", "*", "x"]  # fmt: skip
    for path in strange:
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            raw = {"PATH_INFO": path}
            answer = http.client.open("/", method=method, environ_overrides=raw)
            assert answer.status_code in (200, 204, 404, 405, 422), (method, path)
            assert "html" not in (answer.content_type or "")


def test_a_task_id_from_a_path_that_cannot_be_one_is_no_task(http: Http) -> None:
    for task_id in (
        "%00",
        "a%00b",
        "%FF",
        "%ED%A0%80",
        "x" * 5000,
        "room:a",
        "dm:a:b",
        "%E2%80%AE",
    ):
        for rest in ("", "/messages"):
            refused(http.get(f"/tasks/{task_id}{rest}"), 404, "task_not_found")
        refused(http.post(f"/tasks/{task_id}/close"), 404, "task_not_found")


def test_a_query_in_raw_utf8_is_understood(alice: Agent, bob: Agent, http: Http) -> None:
    alice.send(bob, task_id="prüfung")
    raw = {"QUERY_STRING": "task_id=prüfung".encode().decode("latin-1")}
    assert len(ok(http.get("/agents/bob/inbox", environ_overrides=raw))["messages"]) == 1
    assert len(bob.poll(task_id="prüfung")) == 1
    assert bob.history("pr%C3%BCfung")


FOREIGN = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "evil:80",
           "::1", "localhost:x", "user@localhost", "localhost:80@evil", "0.0.0.0"]  # fmt: skip
LOCAL = ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:65535"]


def test_a_foreign_host_or_origin_is_refused(http: Http, bob: Agent) -> None:
    body = {"from": "alice", "type": "request"}
    for host in LOCAL:
        same = {"Host": host, "Origin": f"http://{host}"}
        ok(http.post("/agents/bob/inbox", body, headers={"Host": host}), 201)
        ok(http.post("/agents/bob/inbox", body, headers=same), 201)
    sent = bob.count()
    for host in FOREIGN:
        answer = http.post("/agents/bob/inbox", body, headers={"Host": host})
        refused(answer, 403, "foreign_request")
        refused(http.get("/agents/bob/inbox", headers={"Host": host}), 403, "foreign_request")
    for origin in ("https://evil.example", "null", "", "https://localhost", "http://localhost:81"):
        headers = {"Host": "localhost", "Origin": origin}
        refused(http.post("/agents/bob/inbox", body, headers=headers), 403, "foreign_request")
        assert "Access-Control-Allow-Origin" not in http.get("/tasks", headers=headers).headers
    assert bob.count() == sent
    assert ok(http.get("/health", headers={"Host": "evil.example"}))["status"] == "healthy"


def test_health_and_the_contract_do_not_ask_the_database(
    http: Http, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models import database

    monkeypatch.setattr(database, "run", lambda *_, **__: pytest.fail("the database was asked"))
    for path in ("/health", "/", "/llms.txt", "/openapi.yaml", "/openapi.json"):
        assert http.get(path).status_code == 200


def test_the_guide_is_text_for_curl_and_a_page_for_a_browser(http: Http) -> None:
    text = http.get("/", headers={"Host": "localhost:8080"})
    assert text.content_type == "text/plain; charset=utf-8"
    assert "http://localhost:8080/agents/bob/inbox" in text.text
    assert len(text.text.splitlines()) < 40
    assert http.get("/", headers={"Accept": "text/html"}).text.startswith("<!doctype html>")
    hostile = http.get("/", headers={"Accept": "text/html", "Host": "<script>"})
    assert "<script>" not in hostile.text


def test_the_guide_alone_leads_to_a_first_conversation(http: Http, agent: Callable) -> None:
    calls = [line for line in http.get("/llms.txt").text.splitlines() if line.startswith("  curl")]
    last = ""
    for call in calls:
        path = call.rpartition("http://localhost")[2].strip("'").replace("/ID/", f"/{last}/")
        if "-d '" in call:
            body = call.partition("-d '")[2].partition("'")[0].replace('"ID"', f'"{last}"')
            answer = ok(http.post(path, body.encode()))
        else:
            answer = ok(http.post(path) if "-X POST" in call else http.get(path))
        last = answer["messages"][0]["id"] if "messages" in answer else last
    assert agent("bob").count() == 0
    assert [seen["type"] for seen in agent("alice").poll()] == ["done"]
