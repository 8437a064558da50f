"""Views of the service itself: health, readiness, the contract, the guide."""

from functools import cache
from pathlib import Path

import msgspec
import yaml

from api import guide as texts
from api.call import Answer, Call
from api.version import VERSION
from inbox import sweeper, turn

CONTRACT = Path(__file__).parents[2] / "openapi.yaml"


def health(call: Call) -> Answer:
    """The process serves; the database is not asked."""
    return Answer({"status": "healthy", "version": VERSION})


def ready(call: Call) -> Answer:
    """The database answers; what the sweeper has done."""
    turn.ready()
    swept = sweeper.status()
    return Answer({"status": "ready", "sweeper": swept} if swept else {"status": "ready"})


def contract_yaml(call: Call) -> Answer:
    """The contract as it is committed."""
    return Answer(_yaml(), content_type="application/yaml")


def contract_json(call: Call) -> Answer:
    """The contract as JSON."""
    return Answer(_json(), content_type="application/json")


@cache
def _yaml() -> bytes:
    return CONTRACT.read_bytes()


@cache
def _json() -> bytes:
    return msgspec.json.encode(yaml.safe_load(_yaml()))


def guide(call: Call) -> Answer:
    """A page for a browser, the guide in plain text for everybody else."""
    if "text/html" in call.headers.get("HTTP_ACCEPT", ""):
        return Answer(texts.page(_base(call)), content_type="text/html; charset=utf-8")
    return guide_text(call)


def guide_text(call: Call) -> Answer:
    """The guide in plain text."""
    return Answer(texts.text(_base(call)), content_type="text/plain; charset=utf-8")


def _base(call: Call) -> str:
    headers = call.headers
    return f"{headers['wsgi.url_scheme']}://{headers.get('HTTP_HOST') or 'localhost'}"
