"""The least that Flask can do: what any service on stock Flask and gunicorn pays before it works."""

import flask

app = flask.Flask(__name__)


@app.route("/", methods=["GET", "POST"])
def hello() -> dict[str, str]:
    """The same small JSON for everybody."""
    return {"hello": "world"}
