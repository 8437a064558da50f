"""How to say the same things to different servers.

A dialect has a method for each operation that its server knows; each is a unit
of work for ``bench.client``: a generator of requests that returns how many
messages, polls or cycles it has got done. An operation that the server does
not know is a method that is not there.
"""

import functools
import itertools
import json
import re

from bench import wire
from bench.client import Unit
from bench.wire import Reply

BATCH = 100  # messages in one batch, and in one page of a drain
TEN = 10
SENDER = "bench"
CONTENT = json.dumps({"text": "Translate clause 3 of the contract, please. " * 2}).encode()
ID = re.compile(rb'"id":\s*"([^"]+)"')


def ids(reply: Reply) -> list[str]:
    """The ids of the messages of a page."""
    return [found.decode() for found in ID.findall(reply.body)]


class Http:
    """What all dialects over HTTP share."""

    reader = staticmethod(wire.http)

    def __init__(self, host: str, headers: tuple[str, ...] = ()) -> None:
        lines = (f"Host: {host}", "Accept: */*", *headers)
        self.head = "".join(f"{line}\r\n" for line in lines).encode()
        self.count = itertools.count()

    def get(self, path: str, head: bytes = b"") -> bytes:
        """A request without a body."""
        return wire.request("GET", path, self.head + head)

    def post(self, path: str, body: bytes = b"", head: bytes = b"") -> bytes:
        """A request with a body."""
        return wire.request("POST", path, self.head + head, body)


class Original(Http):
    """The original API: registered agents, one message a request, ``timeout`` to wait."""

    wait = "timeout"

    def message(self) -> bytes:
        """The fields of a message, but for its sender: eight in a row have a task in common."""
        task = next(self.count) // 8
        return b'"task_id":"bench-%08d","type":"request","content":%s' % (task, CONTENT)

    def open(self, box: str) -> Unit:
        """Register the agent."""
        yield self.post("/agents", json.dumps({"id": box}).encode())
        return 1

    def fill(self, box: str, count: int) -> Unit:
        """Put so many messages into an inbox."""
        for _ in range(count):
            yield self._sent(box)
        return count

    def send(self, box: str) -> Unit:
        """Send one message."""
        yield self._sent(box)
        return 1

    def empty(self, box: str) -> Unit:
        """Poll an empty inbox."""
        yield self._poll(box, TEN)
        return 1

    def ten(self, box: str) -> Unit:
        """Poll ten messages, which stay."""
        reply = yield self._poll(box, TEN)
        return len(ids(reply)) == TEN

    def cycle(self, box: str) -> Unit:
        """Send a message, poll it, acknowledge it."""
        yield self._sent(box)
        reply = yield self._poll(box, 1)
        for one in ids(reply)[:1]:
            yield self._ack(box, one)
            return 1
        return 0

    def drain(self, box: str) -> Unit:
        """Poll a page and acknowledge all of it; 0 at the end."""
        found = ids((yield self._poll(box, BATCH)))
        for one in found:
            yield self._ack(box, one)
        return len(found)

    def park(self, box: str, seconds: int) -> Unit:
        """Wait for a message; returns how many came, acknowledged."""
        found = ids((yield self.waiting(box, seconds)))
        for one in found:
            yield self._ack(box, one)
        return len(found)

    def waiting(self, box: str, seconds: int) -> bytes:
        """A poll that waits."""
        return self.get(f"/agents/{box}/inbox?status=unread&limit=1&{self.wait}={seconds}")

    def _sent(self, box: str) -> bytes:
        return self.post(
            f"/agents/{box}/inbox", b'{"from":"%s",%s}' % (SENDER.encode(), self.message())
        )

    def _poll(self, box: str, limit: int) -> bytes:
        return self.get(f"/agents/{box}/inbox?status=unread&limit={limit}")

    def _ack(self, box: str, one: str) -> bytes:
        return self.post(f"/inbox/messages/{one}/ack")


class Taskpost(Original):
    """The original API, and what Taskpost has beside it: batches, and acks in bulk."""

    wait = "wait"

    def fill(self, box: str, count: int) -> Unit:
        """Put so many messages into an inbox, some hundreds at a time."""
        for begun in range(0, count, 500):
            yield self._batch(box, min(500, count - begun))
        return count

    def batch(self, box: str) -> Unit:
        """Send a hundred messages, all or none."""
        yield self._batch(box, BATCH)
        return BATCH

    def drain(self, box: str) -> Unit:
        """Poll a page and acknowledge it with one request; 0 at the end."""
        found = ids((yield self._poll(box, BATCH)))
        if found:
            yield self.post(f"/agents/{box}/inbox/ack", json.dumps({"ids": found}).encode())
        return len(found)

    def _batch(self, box: str, count: int) -> bytes:
        items = b",".join(b'{"to":"%s",%s}' % (box.encode(), self.message()) for _ in range(count))
        return self.post("/messages", b'{"from":"%s","messages":[%s]}' % (SENDER.encode(), items))

    def _ack(self, box: str, one: str) -> bytes:
        return self.post(f"/inbox/messages/{one}/ack", b'{"from":"%s"}' % box.encode())


class Parley(Http):
    """Parley's nearest: a room for each inbox, with a sender and a reader.

    Its poll moves the reader's cursor, which is its acknowledgement, and gives
    everything there is; its peek moves nothing. It has no batches and no waiting.
    """

    body = json.dumps({"body": CONTENT.decode()}).encode()

    def open(self, box: str) -> Unit:
        """Make the room and join it as its reader."""
        name = json.dumps({"name": box}).encode()
        yield self.post("/rooms", name, self._as(SENDER))
        yield self.post(f"/rooms/{box}/join", b"", self._as("reader"))
        return 1

    def fill(self, box: str, count: int) -> Unit:
        """Post so many messages into a room."""
        for _ in range(count):
            yield self._said(box)
        return count

    def send(self, box: str) -> Unit:
        """Post one message."""
        reply = yield self._said(box)
        return b'"ok":true' in reply.body

    def empty(self, box: str) -> Unit:
        """Poll a room with nothing new."""
        yield self._poll("poll", box)
        return 1

    def ten(self, box: str) -> Unit:
        """Look at the ten new messages of a room, which stay new."""
        reply = yield self._poll("peek", box)
        return reply.body.count(b'"body"') == TEN

    def cycle(self, box: str) -> Unit:
        """Post a message and poll it."""
        yield self._said(box)
        reply = yield self._poll("poll", box)
        return reply.body.count(b'"body"') == 1

    def drain(self, box: str) -> Unit:
        """Poll all there is; 0 at the end."""
        reply = yield self._poll("poll", box)
        return reply.body.count(b'"body"')

    def _said(self, box: str) -> bytes:
        return self.post(f"/rooms/{box}/messages", self.body, self._as(SENDER))

    def _poll(self, verb: str, box: str) -> bytes:
        return self.get(f"/{verb}?room={box}", self._as("reader"))

    def _as(self, agent: str) -> bytes:
        return f"X-Parley-Agent: {agent}\r\n".encode()


class Hello(Http):
    """A server that only says hello: the floor under a send and an empty poll."""

    def open(self, box: str) -> Unit:
        """Nothing to prepare; one request to warm it."""
        yield self.get("/")
        return 1

    def send(self, box: str) -> Unit:
        """Post what a send posts; nothing reads it."""
        yield self.post("/", b'{"from":"bench","task_id":"bench","content":%s}' % CONTENT)
        return 1

    def empty(self, box: str) -> Unit:
        """Get the hello."""
        yield self.get("/")
        return 1


class Redis:
    """Redis Streams: a stream for each inbox, with one consumer group."""

    reader = staticmethod(wire.resp)
    script = b"for i = 1, #ARGV do redis.call('XADD', KEYS[1], '*', 'm', ARGV[i]) end return #ARGV"
    group = (b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT")

    def open(self, box: str) -> Unit:
        """Make the stream and its group."""
        yield wire.command(b"XGROUP", b"CREATE", box.encode(), b"g", b"0", b"MKSTREAM")
        return 1

    def fill(self, box: str, count: int) -> Unit:
        """Add so many entries."""
        for begun in range(0, count, 500):
            yield self._batch(box, min(500, count - begun))
        return count

    def send(self, box: str) -> Unit:
        """Add one entry."""
        yield self._added(box)
        return 1

    def empty(self, box: str) -> Unit:
        """Read what is new for the group: nothing."""
        yield self._read(box, TEN)
        return 1

    def ten(self, box: str) -> Unit:
        """Read ten entries, which stay as they are."""
        reply = yield _same(b"XRANGE", box.encode(), b"-", b"+", b"COUNT", b"10")
        return len(reply.body) == TEN

    def cycle(self, box: str) -> Unit:
        """Add an entry, read it in the group, acknowledge it."""
        yield self._added(box)
        found = _entries((yield self._read(box, 1)))
        yield self._ack(box, found)
        return 1

    def batch(self, box: str) -> Unit:
        """Add a hundred entries, all or none, with a script."""
        yield self._batch(box, BATCH)
        return BATCH

    def drain(self, box: str) -> Unit:
        """Read a page in the group and acknowledge it; 0 at the end."""
        found = _entries((yield self._read(box, BATCH)))
        if found:
            yield self._ack(box, found)
        return len(found)

    def park(self, box: str, seconds: int) -> Unit:
        """Wait for an entry; returns how many came, acknowledged."""
        found = _entries((yield self.waiting(box, seconds)))
        if found:
            yield self._ack(box, found)
        return len(found)

    def waiting(self, box: str, seconds: int) -> bytes:
        """A read that waits."""
        wait = (b"1", b"BLOCK", b"%d" % (seconds * 1000))
        return wire.command(*self.group, *wait, b"STREAMS", box.encode(), b">")

    def _added(self, box: str) -> bytes:
        return _same(b"XADD", box.encode(), b"*", b"m", CONTENT)

    def _batch(self, box: str, count: int) -> bytes:
        return wire.command(b"EVAL", self.script, b"1", box.encode(), *[CONTENT] * count)

    def _read(self, box: str, count: int) -> bytes:
        return _same(*self.group, b"%d" % count, b"STREAMS", box.encode(), b">")

    def _ack(self, box: str, found: list[bytes]) -> bytes:
        return wire.command(b"XACK", box.encode(), b"g", *found)


_same = functools.lru_cache(4096)(wire.command)  # commands that are sent again and again


def _entries(reply: Reply) -> list[bytes]:
    return [entry[0] for _, entries in reply.body or () for entry in entries]


Dialect = Original | Taskpost | Parley | Hello | Redis
