"""The worker over raw sockets: requests that it must take, however they arrive."""

import json
from collections.abc import Iterator

import pytest

from tests.api.rawhttp import Client, Server, serving

POST = (
    b"POST /a%20b?q=1 HTTP/1.1\r\nHost: test\r\nX-One: 1\r\nContent-Length: 5\r\n\r\nhello"
    b"POST /c HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'3;ext="x"\r\nchu\r\n04\r\nnked\r\n0\r\nX-Trailer: t\r\nHost: trailer\r\n\r\n'
    b"GET /end HTTP/1.1\r\nHost: test\r\n\r\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


def test_wsgi_has_the_request_as_pep_3333_has_it(client: Client, server: Server) -> None:
    seen = client.get("/a%2Fb/%C3%A9%zz?q=%20a&b", "X-Test:  one \t", "Content-Type: text/x").json
    assert seen["REQUEST_METHOD"] == "GET"
    assert seen["PATH_INFO"] == "/a/b/\u00c3\u00a9%zz"  # latin-1 of the decoded bytes
    assert seen["RAW_URI"] == "/a%2Fb/%C3%A9%zz?q=%20a&b"
    assert seen["QUERY_STRING"] == "q=%20a&b"
    assert (seen["SCRIPT_NAME"], seen["SERVER_PROTOCOL"]) == ("", "HTTP/1.1")
    assert (seen["SERVER_NAME"], seen["SERVER_PORT"]) == ("127.0.0.1", str(server.port))
    address = client.socket.getsockname()
    assert (seen["REMOTE_ADDR"], seen["REMOTE_PORT"]) == (address[0], str(address[1]))
    assert (seen["HTTP_X_TEST"], seen["CONTENT_TYPE"]) == ("one", "text/x")
    assert seen["wsgi.url_scheme"] == "http"
    assert not seen["wsgi.multithread"]
    assert seen["wsgi.input_terminated"]
    assert "CONTENT_LENGTH" not in seen
    assert "HTTP_CONTENT_TYPE" not in seen


def test_a_header_that_comes_twice_is_one_list(client: Client) -> None:
    seen = client.get("/", "X-A: 1", "x-a: 2", "Cookie: a=1", "Cookie: b=2", "X-Empty:").json
    assert (seen["HTTP_X_A"], seen["HTTP_COOKIE"], seen["HTTP_X_EMPTY"]) == ("1,2", "a=1; b=2", "")


def test_bytes_above_127_in_a_header_are_latin_1(client: Client) -> None:
    client.send(b"GET / HTTP/1.1\r\nHost: test\r\nX-A: \xc3\xa0\r\n\r\n")
    assert client.answer().json["HTTP_X_A"] == "\u00c3\u00a0"


def test_a_body_is_read_by_its_length(client: Client) -> None:
    seen = client.post("/", b"\r\n\x00body").json
    assert (seen["CONTENT_LENGTH"], seen["body"]) == ("7", "\r\n\x00body")


def test_a_chunked_body_has_a_length_in_the_end_and_no_trailers(client: Client) -> None:
    client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: Chunked\r\n\r\n")
    client.send("5;a=b\r\nhello\r\n00A\r\n0123456789\r\n000\r\nX-A: b\r\nA_b: c\r\n\r\n")
    seen = client.answer().json
    assert (seen["CONTENT_LENGTH"], seen["body"]) == ("15", "hello0123456789")
    assert not {"HTTP_TRANSFER_ENCODING", "HTTP_X_A", "HTTP_A_B"} & set(seen)
    assert client.get("/next").status == 200


@pytest.mark.parametrize("framing", ["Content-Length: 300000", "Transfer-Encoding: chunked"])
def test_a_large_body_arrives_whole(client: Client, framing: str) -> None:
    body = bytes(range(256)) * 1200
    if "chunked" in framing:
        sent = b"".join(
            b"%x\r\n%b\r\n" % (7000, body[at : at + 7000]) for at in range(0, 294000, 7000)
        )
        body, sent = body[:294000], sent + b"0\r\n\r\n"
    else:
        sent = body = body[:300000]
    client.send(f"POST / HTTP/1.1\r\nHost: test\r\n{framing}\r\n\r\n", sent)
    assert client.answer().json["body"].encode("latin-1") == body


def test_one_connection_serves_many_requests(client: Client) -> None:
    assert [client.get(f"/{n}").json["PATH_INFO"] for n in range(5)] == [f"/{n}" for n in range(5)]


def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: test\r\n\r\n" % n for n in range(500)))
    assert [client.answer().json["PATH_INFO"] for _ in range(500)] == [f"/{n}" for n in range(500)]


def test_pipelined_requests_do_not_keep_others_waiting(client: Client, server: Server) -> None:
    client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: test\r\n\r\n" % n for n in range(2000)))
    assert server.get("/").status == 200
    assert [client.answer().status for _ in range(2000)] == [200] * 2000


def arriving(server: Server, parts: list[bytes]) -> list[tuple[str, str]]:
    """What the application sees when the parts arrive one by one."""
    with server.client() as client, server.client() as other:
        for part in parts:
            client.send(part)
            other.get("/")  # by then the worker has read what was sent before
        answers = [client.answer().json for _ in range(3)]
    return [(seen["PATH_INFO"], seen["body"]) for seen in answers]


def test_requests_may_be_split_anywhere(server: Server) -> None:
    expected = [("/a b", "hello"), ("/c", "chunked"), ("/end", "")]
    for at in range(1, len(POST)):
        assert arriving(server, [POST[:at], POST[at:]]) == expected


def test_requests_may_come_byte_by_byte(server: Server) -> None:
    parts = [POST[at : at + 1] for at in range(len(POST))]
    assert arriving(server, parts) == [("/a b", "hello"), ("/c", "chunked"), ("/end", "")]


def test_empty_lines_before_a_request_are_skipped(client: Client) -> None:
    client.send("\r\n\r\nGET / HTTP/1.1\r\nHost: test\r\n\r\n")
    assert client.answer().status == 200


def test_head_has_the_headers_of_get_and_no_body(client: Client) -> None:
    answer = client.get("/answer?piece=four", method="HEAD")
    assert (answer.status, answer.headers["content-length"]) == (200, "4")
    assert client.get("/").status == 200


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "OPTIONS", "PROPFIND"])
def test_every_method_goes_to_the_application(client: Client, method: str) -> None:
    assert client.get("/", method=method).json["REQUEST_METHOD"] == method


def test_connection_close_closes_after_the_answer(client: Client) -> None:
    assert client.get("/", "Connection: close").headers["connection"] == "close"
    assert client.ended()


def test_http_1_0_is_closed_unless_it_asks_otherwise(client: Client) -> None:
    answer = client.get("/", "Connection: keep-alive", version="1.0")
    assert answer.headers["connection"] == "keep-alive"
    assert answer.json["SERVER_PROTOCOL"] == "HTTP/1.0"
    client.send("GET / HTTP/1.0\r\n\r\n")  # no Host either
    assert client.answer().headers["connection"] == "close"
    assert client.ended()


def test_what_follows_a_last_request_is_not_answered(client: Client) -> None:
    client.send("GET /1 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
    client.send("GET /2 HTTP/1.1\r\nHost: test\r\n\r\n")
    assert client.answer().json["PATH_INFO"] == "/1"
    assert client.ended()


def test_a_client_that_has_said_all_still_gets_its_answers(client: Client) -> None:
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 60 + "GET / HTTP/1.1\r\nHost")
    client.socket.shutdown(1)
    assert [client.answer().status for _ in range(60)] == [200] * 60
    assert client.ended()


def test_a_body_is_asked_for_when_the_client_expects_it(client: Client) -> None:
    client.send(
        "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n"
    )
    assert client.answer().status == 100
    client.send("ok")
    assert client.answer().json["body"] == "ok"


def test_a_body_that_is_here_is_not_asked_for(client: Client) -> None:
    head = "POST / HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    client.send(head + "ok")
    assert client.answer().json["body"] == "ok"
    client.send(head.replace("1.1", "1.0") + "ok")  # which knows no 100
    assert client.answer().json["body"] == "ok"


def test_the_word_to_go_on_comes_after_earlier_answers(client: Client) -> None:
    client.send("GET /first HTTP/1.1\r\nHost: test\r\n\r\nPOST / HTTP/1.1\r\nHost: test\r\n")
    client.send("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
    assert client.answer().json["PATH_INFO"] == "/first"
    assert client.answer().status == 100
    client.send("2\r\nok\r\n0\r\n\r\n")
    assert client.answer().json["body"] == "ok"


def test_an_absolute_target_names_the_host(client: Client) -> None:
    seen = client.get("http://other:80/path?q").json
    assert (seen["HTTP_HOST"], seen["PATH_INFO"], seen["QUERY_STRING"]) == (
        "other:80",
        "/path",
        "q",
    )
    assert client.get("HTTP://other?q").json["PATH_INFO"] == "/"


def test_options_may_ask_about_the_server(client: Client) -> None:
    assert client.get("*", method="OPTIONS").json["PATH_INFO"] == "*"


OFFER = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")


def test_an_offer_to_upgrade_is_ignored(client: Client) -> None:
    assert client.get("/1", *OFFER).json["PATH_INFO"] == "/1"
    assert client.post("/2", b"GET /smuggled HTTP/1.1\r\n\r\n", *OFFER).json["PATH_INFO"] == "/2"
    head = "\r\n".join(["POST /3 HTTP/1.1", "Host: a", "Transfer-Encoding: chunked", *OFFER])
    client.send(
        head, "\r\n\r\n3\r\nabc\r\n0\r\nX-A: b\r\n\r\n", "GET /4 HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    assert client.answer().json["body"] == "abc"
    assert client.answer().json["PATH_INFO"] == "/4"
    client.send("\r\n".join(["GET /5 HTTP/1.1", "Host: a", *OFFER, "", ""]), POST)
    assert [client.answer().json["PATH_INFO"] for _ in range(4)] == ["/5", "/a b", "/c", "/end"]


def test_a_proxy_is_not_believed_unasked(client: Client) -> None:
    seen = client.get("/", "X-Forwarded-For: 10.1.1.1", "X-Forwarded-Proto: https").json
    assert (seen["REMOTE_ADDR"], seen["wsgi.url_scheme"]) == ("127.0.0.1", "http")


def test_a_proxy_that_is_configured_is_believed(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = "forwarded_allow_ips = '127.0.0.1,10.9.0.0/16'"
    with serving(tmp_path_factory.mktemp("proxied"), settings) as server, server.client() as client:
        assert client.get("/").json["REMOTE_PORT"] == str(client.socket.getsockname()[1])

        def seen(hops: str, scheme: str = "https") -> tuple[str, str, str]:
            headers = f"X-Forwarded-For: {hops}", f"X-Forwarded-Proto: {scheme}"
            seen = client.get("/", *headers).json
            return seen["REMOTE_ADDR"], seen["REMOTE_PORT"], seen["wsgi.url_scheme"]

        assert [seen("10.1.1.1") for _ in range(4)] == [("10.1.1.1", "", "https")] * 4
        assert seen("6.6.6.6, 10.1.1.1, 10.9.1.1", "http") == ("10.1.1.1", "", "http")
        assert seen("[2001:db8::1]:443", "gopher") == ("2001:db8::1", "", "http")
        assert seen("unknown, 10.9.1.1:80") == ("10.9.1.1", "", "https")
        assert seen("nonsense")[0] == "127.0.0.1"


def test_a_unix_socket_serves_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("unix"), unix=True) as server, server.client() as client:
        seen = client.get("/", "X-Forwarded-For: 10.1.1.1").json
        assert (seen["REMOTE_ADDR"], seen["REMOTE_PORT"]) == ("", "")
        assert (seen["SERVER_NAME"], seen["SERVER_PORT"]) == ("localhost", "80")
        assert json.loads(client.post("/", b"body").body)["body"] == "body"
