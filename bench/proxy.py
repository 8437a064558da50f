"""A TCP proxy that delays every byte by the same time, each way: a database that is not next door.

    python -m bench.proxy LISTEN_PORT TO_PORT MILLISECONDS

It keeps order and adds no limit of its own. A thread reads and another
writes, each way: their sleep is precise to a tenth of a millisecond, an event
loop's timers are not.
"""

import contextlib
import queue
import socket
import sys
import threading
import time

CHUNK = 256 << 10
Parcels = queue.SimpleQueue[tuple[float, bytes]]


def serve(listener: socket.socket, to: tuple[str, int], delay: float) -> None:
    """Pass on every connection that ``listener`` gets; ``delay`` in seconds. Never returns."""
    while True:
        near, _ = listener.accept()
        try:
            far = socket.create_connection(to, timeout=10)
        except OSError:
            near.close()  # as if nobody listened
            continue
        far.settimeout(None)
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            parcels: Parcels = queue.SimpleQueue()
            _thread(_read, one, parcels, delay)
            _thread(_write, other, parcels)


def _thread(work, *arguments) -> None:  # type: ignore[no-untyped-def]
    threading.Thread(target=work, args=arguments, daemon=True).start()


def _read(source: socket.socket, parcels: Parcels, delay: float) -> None:
    data = b"-"
    while data:
        try:
            data = source.recv(CHUNK)
        except OSError:  # broken is as good as closed
            data = b""
        parcels.put((time.monotonic() + delay, data))


def _write(target: socket.socket, parcels: Parcels) -> None:
    while True:
        due, data = parcels.get()
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            if data:
                target.sendall(data)
                continue
        except OSError:  # nobody is there to read it
            pass
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        return


def main() -> None:
    """Listen on 127.0.0.1 until the process is ended."""
    port, to, milliseconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    with socket.create_server(("127.0.0.1", port)) as listener:
        serve(listener, ("127.0.0.1", to), milliseconds / 1000)


if __name__ == "__main__":
    main()
