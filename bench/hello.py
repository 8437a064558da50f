"""The least that Flask can do: what every service on it pays before its own work begins."""

import flask

app = flask.Flask(__name__)


@app.route("/", methods=["GET", "POST"])
def hello() -> dict[str, str]:
    """The same small JSON for everybody."""
    return {"hello": "world"}
