"""The worker over raw sockets: what an application answers, and what goes over the wire."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.api.rawhttp import Client, Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        client.get("/events")  # forget those of other tests
        yield client


def answer(*headers: str, status: str = "200 OK", piece: tuple[str, ...] = ("body",)) -> str:
    """The path that makes the application answer so."""
    query = [("status", status), *(("header", h) for h in headers), *(("piece", p) for p in piece)]
    return f"/answer?{urlencode(query)}"


def test_a_body_gets_its_length(client: Client) -> None:
    got = client.get(answer("X-A:b", piece=("one, ", "two")))
    assert (got.status, got.body, got.headers["content-length"]) == (200, b"one, two", "8")
    assert got.headers["x-a"] == "b"
    assert "connection" not in got.headers


def test_the_date_is_there_and_no_version(client: Client) -> None:
    got = client.get("/answer")
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", got.headers["date"])
    assert got.headers["server"] == "taskpost"
    assert "gunicorn" not in str(got.headers)


def test_the_length_that_the_application_gives_is_kept(client: Client) -> None:
    assert client.get(answer("Content-Length:4")).headers["content-length"] == "4"
    assert client.get(answer("content-length:4"), method="HEAD").headers["content-length"] == "4"
    assert client.get(answer("Content-Length:9", piece=()), method="HEAD").status == 200


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_some_answers_have_no_body(client: Client, status: str) -> None:
    got = client.get(answer(status=status))
    assert got.status == int(status[:3])
    assert "content-length" not in got.headers
    assert "transfer-encoding" not in got.headers
    got = client.get(answer("Content-Length:4", status=status))
    assert ("content-length" in got.headers) == (status[:3] == "304")
    assert client.get("/pieces?" + urlencode({"status": status, "piece": "x"})).body == b""
    assert client.get("/").status == 200


def test_an_answer_without_a_body_has_a_length_of_0(client: Client) -> None:
    assert client.get(answer(piece=())).headers["content-length"] == "0"


def test_any_reason_will_do(client: Client) -> None:
    client.send("GET ", answer(status="299 S\u00e0 \u00e0"), " HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.line() == "HTTP/1.1 299 S\u00e0 \u00e0".encode("latin-1")


WRONG = {
    "line end in a value": answer("X-A:b\r\nX-C: d"),
    "LF in a value": answer("X-A:b\nX-C: d"),
    "CR in a value": answer("X-A:b\rX-C: d"),
    "NUL in a value": answer("X-A:b\0"),
    "line end in a name": answer("X-A\r\nX-B:c"),
    "space in a name": answer("X A:b"),
    "no name": answer(":b"),
    "name not ASCII": answer("X-\u00e9:b"),
    "value beyond latin-1": answer("X-A:\u20ac"),
    "line end in the status": answer(status="200 OK\r\nX-A: b"),
    "status not a number": answer(status="OK"),
    "status of one digit": answer(status="2 OK"),
    "informational": answer(status="101 Switching Protocols"),
    "connection": answer("Connection:close"),
    "keep-alive": answer("keep-alive:5"),
    "transfer-encoding": answer("Transfer-Encoding:chunked"),
    "upgrade": answer("Upgrade:websocket"),
    "trailer": answer("Trailer:X-A"),
    "length too small": answer("Content-Length:3"),
    "length too large": answer("Content-Length:5"),
    "length below zero": answer("Content-Length:-4"),
    "length no number": answer("Content-Length:four"),
    "length in other digits": answer("Content-Length:\u00b2"),
    "two lengths": answer("Content-Length:4", "Content-Length:4"),
    "no start_response": "/silent",
    "start_response twice": "/twice",
    "crash": "/crash",
}


@pytest.mark.parametrize("path", WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_sent_is_a_500(client: Client, server: Server, path: str) -> None:
    with server.client() as other:
        other.get("/")
        client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
        got = client.answer()
        assert (got.status, got.json["code"]) == (500, "internal_error")
        assert got.headers["content-type"] == "application/problem+json"
        assert b"secret" not in got.body
        assert client.ended()
        assert other.get("/").status == 200  # and nobody else has noticed


def test_a_crash_is_in_the_log(client: Client, server: Server) -> None:
    request_id = client.get("/crash").json["request_id"]
    log = server.log.read_text()
    assert f"Error in request {request_id}" in log
    assert "RuntimeError: a secret" in log


def test_a_crash_does_not_take_earlier_answers_with_it(client: Client) -> None:
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /crash HTTP/1.1\r\nHost: a\r\n\r\n")
    assert [client.answer().status, client.answer().status] == [200, 500]
    assert client.ended()


def test_an_error_may_replace_an_answer_that_has_not_begun(client: Client) -> None:
    got = client.get("/again/error")
    assert (got.status, got.body) == (418, b"instead")


def test_write_comes_before_what_is_returned(client: Client) -> None:
    assert client.get("/write").body == b"written, returned"


def test_a_generator_may_begin_late(client: Client) -> None:
    assert client.get("/lazy").body == b"lazy"


def test_an_iterated_body_comes_in_chunks(client: Client, server: Server) -> None:
    got = client.get("/pieces?piece=one&piece=two&piece=%20")
    assert (got.body, got.headers["transfer-encoding"]) == (b"onetwo ", "chunked")
    assert client.get("/events").json == ["closed"]
    assert client.get("/pieces?piece=one&piece=two&length=6").body == b"onetwo"
    assert client.get("/pieces?piece=onetwo&length=6").body == b"onetwo"
    assert client.get("/pieces", method="HEAD").body == b""
    assert client.get("/events").json == ["closed"] * 3


def test_an_iterated_body_ends_a_1_0_connection(client: Client) -> None:
    got = client.get("/pieces?piece=one&piece=two", "Connection: keep-alive", version="1.0")
    assert (got.body, got.headers["connection"]) == (b"onetwo", "close")


@pytest.mark.parametrize("length", [5, 7])
def test_a_wrong_length_is_not_passed_off_as_right(client: Client, length: int) -> None:
    client.send(f"GET /pieces?piece=one&piece=two&length={length} HTTP/1.1\r\nHost: a\r\n\r\n")
    status, headers = client.head()
    assert (status, headers["content-length"]) == (200, str(length))
    assert len(client.rest()) < length


def test_a_fault_in_the_middle_cuts_the_connection(client: Client, server: Server) -> None:
    client.send("GET /faulty HTTP/1.1\r\nHost: a\r\n\r\n")
    client.head()
    assert client.rest() == b"6\r\nso far\r\n"
    assert server.get("/events").json == ["closed"]
    assert "RuntimeError: in the middle" in server.log.read_text()


def test_a_large_answer_arrives_whole(client: Client) -> None:
    assert len(client.get("/large?size=5000000").body) == 5_000_000
    assert client.get("/").status == 200


def test_the_application_cannot_change_how_it_is_answered(client: Client) -> None:
    got = client.get("/polluting", method="HEAD")
    assert (got.status, got.headers["content-length"]) == (200, "4")
    assert client.get("/next").json["PATH_INFO"] == "/next"


def test_a_request_id_of_the_application_is_that_of_the_problem(client: Client) -> None:
    got = client.get("/named/mine")
    assert (got.json["request_id"], got.headers["x-request-id"]) == ("mine", "mine")
