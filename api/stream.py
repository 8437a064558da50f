"""An answer that comes by and by: it is written no faster than its client reads it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from api.connection import Connection

BURST = 16  # pieces written before others have a turn


class Stream:
    """What is left of the body that an application yields; ``source`` is what it returned."""

    __slots__ = ("connection", "pieces", "source")

    def __init__(self, connection: "Connection", source: Any, pieces: Iterator[bytes]) -> None:
        self.connection = connection
        self.source = source
        self.pieces = pieces  # framed

    def pump(self) -> None:
        """Write pieces, as long as the client keeps up."""
        connection = self.connection
        try:
            for _ in range(BURST):
                if connection.stalled() or connection.transport.is_closing():
                    return
                piece = next(self.pieces, None)
                if piece is None:
                    connection.stream = None
                    self.close()
                    connection.answered()
                    return
                connection.sent += len(piece)
                connection.transport.write(piece)
        except Exception:
            connection.worker.log.exception("Error in the answer of a request")
            connection.transport.abort()  # so that the client knows that it is not whole
        else:
            connection.worker.loop.call_soon(connection.safely, connection.flow)

    def close(self) -> None:
        """Let the application tidy up, as PEP 3333 promises."""
        if hasattr(self.source, "close"):
            self.source.close()
