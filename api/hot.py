"""The short way of the daily routes: a look-up in place of Flask's dispatch."""

from api.route import Route
from api.routes import ROUTES

Found = tuple[Route, dict[str, str]]

MOST, LONGEST = 10_000, 200  # paths kept, and characters of one


class Hot:
    """The routes marked hot, each with one parameter in its path."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Found] = {}
        self.routes: dict[int, dict[tuple[str, str], tuple[Route, str]]] = {}
        for route in ROUTES:
            if route.hot:
                self._add(route)

    def _add(self, route: Route) -> None:
        parts = route.pattern.split("/")
        (place,) = (index for index, part in enumerate(parts) if part.startswith("{"))
        rest = "/".join(parts[:place] + parts[place + 1 :])
        self.routes.setdefault(place, {})[route.method, rest] = (route, parts[place][1:-1])

    def find(self, method: str, path: str) -> Found | None:
        """The hot route of a request with its parameter; None leaves it to Flask.

        An agent polls the same path day in, day out, so the answer is kept.
        """
        found = self.kept.get((method, path))
        if found is None:
            found = self._find(method, path)
            if found is not None and len(path) <= LONGEST:
                if len(self.kept) >= MOST:
                    self.kept.clear()
                self.kept[method, path] = found
        return found

    def _find(self, method: str, path: str) -> Found | None:
        parts = path.split("/")
        for place, routes in self.routes.items():
            if place < len(parts):
                value = parts.pop(place)
                found = routes.get((method, "/".join(parts)))
                if found is not None and value and value.isascii():
                    return found[0], {found[1]: value}
                parts.insert(place, value)
        return None
