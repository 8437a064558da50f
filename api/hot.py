"""The short way of the daily routes: a look-up in place of Flask's dispatch."""

from api.route import Route
from api.routes import ROUTES

Found = tuple[Route, dict[str, str]]


class Hot:
    """The routes marked hot, each with one parameter in its path."""

    def __init__(self) -> None:
        # By what comes before the parameter; then by method and what comes after it.
        self.routes: dict[str, dict[tuple[str, str], tuple[Route, str]]] = {}
        for route in ROUTES:
            if route.hot:
                before, _, rest = route.pattern.partition("{")
                name, _, after = rest.partition("}")
                self.routes.setdefault(before, {})[route.method, after] = (route, name)

    def find(self, method: str, path: str) -> Found | None:
        """The hot route of a request with its parameter; None leaves it to Flask."""
        for before, routes in self.routes.items():
            if path.startswith(before):
                value, slash, after = path[len(before) :].partition("/")
                found = routes.get((method, slash + after))
                if found is not None and value and value.isascii():
                    return found[0], {found[1]: value}
        return None
