"""Reading a request: the query and the body into what the schemas allow, and who is asking."""

import difflib
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from marshmallow import Schema, ValidationError

from api import jsontext
from api.envelopes import Query
from api.quick import Quick
from inbox import names
from inbox.errors import (
    BodyTooLarge,
    InboxNotFound,
    InvalidJson,
    InvalidRequest,
    SenderMismatch,
    TaskNotFound,
    UnsupportedEncoding,
)
from inbox.names import Actor

REALM = "default"
NOBODY = Actor(REALM)
FAULTS = 20  # how many things that are wrong one problem lists at most
LENGTH = re.compile(r"[0-9]+")

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_raw_items = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()


@lru_cache(1024)
def query(schema: Query, text: str) -> Mapping[str, Any]:
    """The parameters of a query string; empty ones are as if left out.

    Not so ``as``: a script whose variable is empty must not become the operator.
    """
    if not text:
        return MappingProxyType(schema.load({}))
    given: dict[str, Any] = {}
    try:
        # WSGI gives bytes as latin-1; a client that has not escaped them means UTF-8.
        sent = text.encode("latin-1").decode()
        parsed = parse_qsl(sent, keep_blank_values=True, errors="strict", max_num_fields=200)
    except ValueError as error:
        errors = [{"pointer": "?", "detail": "is not UTF-8, or has more than 200 parameters"}]
        raise InvalidRequest("The query string cannot be read.", errors=errors) from error
    pairs = [(name, value) for name, value in parsed if value or name == "as"]
    lists = [field.data_key or name for name, field in schema.fields.items() if _many(field)]
    for name, value in pairs:
        if name in lists:
            given.setdefault(name, []).append(value)
        elif name in given:
            fault = {"pointer": f"?{name}", "detail": "is given twice"}
            raise InvalidRequest(f"The parameter {name} is given twice.", errors=[fault])
        else:
            given[name] = value
    try:
        return MappingProxyType(schema.load(given))
    except ValidationError as error:
        raise _invalid(schema, error, "?") from error


def _many(field: Any) -> bool:
    return hasattr(field, "most") and hasattr(field, "inner")


def body(environ: Mapping[str, Any], most: int) -> bytes:
    """The body as sent, decompressed; raises ``BodyTooLarge`` beyond ``most`` bytes."""
    length = environ.get("CONTENT_LENGTH") or ""
    promised = int(length[:18]) if LENGTH.fullmatch(length) else 0
    if promised > most:
        raise BodyTooLarge(f"The body has {promised} bytes or more, the limit is {most}.")
    raw = _read(environ["wsgi.input"], most + 1) if length or _chunked(environ) else b""
    if len(raw) < promised:
        raise InvalidJson(f"The body ends after {len(raw)} of {promised} bytes.")
    if len(raw) > most:
        raise BodyTooLarge(f"The body has more than {most} bytes, the limit.")
    encoding = environ.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding in ("", "identity") or not raw:
        return raw
    if encoding not in ("gzip", "x-gzip"):
        raise UnsupportedEncoding(f"The body is encoded as {encoding[:40]!r}.")
    return _gunzip(raw, most)


def _read(source: Any, most: int) -> bytes:
    try:
        return source.read(most)  # type: ignore[no-any-return]
    except Exception as error:  # every server has its own
        raise InvalidJson("The body breaks off, or its chunks cannot be read.") from error


def _chunked(environ: Mapping[str, Any]) -> bool:
    return bool(environ.get("wsgi.input_terminated"))


def _gunzip(raw: bytes, most: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as packed:
            plain = packed.read(most + 1)
    except EOFError as error:
        raise InvalidJson("The body's gzip data ends too early.") from error
    except (OSError, zlib.error) as error:
        raise InvalidJson("The body says it is gzip and is not.") from error
    if len(plain) > most:
        raise BodyTooLarge(f"The body has more than {most} bytes once decompressed, the limit.")
    return plain


def document(quick: Quick, raw: bytes) -> dict[str, Any]:
    """The fields of a JSON body; content stays the bytes that were received."""
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise InvalidJson("The body is not UTF-8.") from error
    if len(raw) > jsontext.DIGITS and jsontext.has_long_number(raw):
        raise InvalidJson(
            f"The body holds a number of more than {jsontext.DIGITS} digits, which not everybody"
            " can read: send it as a string."
        )
    deep = jsontext.too_deep(raw)
    made = None if deep else quick.read(raw)
    return made if made is not None else _loaded(quick.schema, raw, deep)


def _loaded(schema: Schema, raw: bytes, deep: bool) -> dict[str, Any]:
    """What the schema says of a body that is not simply right."""
    given = _plain(_fields(raw, _object) if raw.strip() else {}, deep)
    try:
        return schema.load(given)  # type: ignore[no-any-return]
    except ValidationError as error:
        raise _invalid(schema, error, "/") from error


def _fields(raw: bytes, decoder: msgspec.json.Decoder) -> Any:
    try:
        return decoder.decode(raw)
    except RecursionError as error:
        raise InvalidJson(f"The body is nested more than {jsontext.DEPTH} deep.") from error
    except msgspec.MsgspecError as error:
        if "truncated" in str(error) and re.search(rb"\\u[dD][89a-fA-F]", raw):
            raise InvalidJson("The body holds half of a surrogate pair.") from error
        raise InvalidJson(f"The body is not a JSON object: {error}.") from error


def _plain(given: dict[str, msgspec.Raw], deep: bool) -> dict[str, Any]:
    """Every field as Python has it, but content, which stays as it is."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        raw = bytes(value)
        if name == "messages" and raw.startswith(b"["):
            made[name] = [_item(bytes(item), deep) for item in _fields(raw, _raw_items)]
            continue
        if deep and jsontext.too_deep(raw):
            raise InvalidJson(f"The body is nested more than {jsontext.DEPTH} deep.")
        made[name] = raw if name == "content" else _fields(raw, _anything)
    return made


def _item(raw: bytes, deep: bool) -> Any:
    return _plain(_fields(raw, _object), deep) if raw.startswith(b"{") else _fields(raw, _anything)


def _invalid(schema: Schema, error: ValidationError, root: str) -> InvalidRequest:
    faults = list(itertools.islice(_faults(schema, error.messages, root), FAULTS))
    said = f"{faults[0]['pointer']} {faults[0]['detail']}"
    return InvalidRequest(said if said.endswith("?") else f"{said}.", errors=faults)


def _faults(schema: Schema, found: Any, pointer: str) -> Iterator[dict[str, str]]:
    """Marshmallow's nested messages as pointers with a line each."""
    if isinstance(found, list):
        for text in found:
            yield {"pointer": pointer.rstrip("/") or "/", "detail": _worded(schema, text, pointer)}
        return
    for name, inner in found.items():
        joined = pointer if name == "_schema" else f"{pointer}{_token(name)}"
        deeper = isinstance(inner, dict)
        yield from _faults(schema, inner, joined + "/" if deeper else joined)


def _token(name: str | int) -> str:
    """A field's name as a JSON pointer has it; what a client made up may be very long."""
    return str(name)[:100].replace("~", "~0").replace("/", "~1")


def _worded(schema: Schema, text: str, pointer: str) -> str:
    if text == "Missing data for required field.":
        return "is missing"
    if text == "Field may not be null.":
        return "is null"
    if text.startswith("Longer than maximum"):
        return "is too long"
    if text != "Unknown field.":
        return text[0].lower() + text[1:]
    known = [field.data_key or name for name, field in schema.fields.items()]
    if "messages" in known:
        known += [
            field.data_key or name
            for name, field in schema.fields["messages"].inner.schema.fields.items()
        ]
    given = pointer.rstrip("/").rpartition("/")[2].lstrip("?")
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    return f"is not known; did you mean {close[0]}?" if close else "is not known"


def actor(
    environ: Mapping[str, Any],
    path: Mapping[str, str],
    asked: Mapping[str, Any],
    sent: Mapping[str, Any],
    own: bool,
) -> Actor:
    """Who is asking, in open mode: whom the request names; nobody means the operator.

    On its own inbox (``own``) that is the agent in the path, else ``from`` in
    the body or its messages, else ``?as=``, else the header. Two different
    names are an error, and so is an empty one.
    """
    name = sent.get("sender")
    header = environ.get("HTTP_TASKPOST_AGENT")
    if header is not None or "as_" in asked or "messages" in sent:
        name = _named(name, header, asked, sent)
    if not own:
        return Actor(REALM, name)
    if name is not None and name != path["agent"]:
        raise InboxNotFound(f"{name} has no inbox {path['agent']}.")
    return Actor(REALM, path["agent"])


def _named(
    sender: str | None, header: str | None, asked: Mapping[str, Any], sent: Mapping[str, Any]
) -> str | None:
    """The one name that all these give."""
    if header is not None and (fault := names.agent_fault(header)):
        errors = [{"pointer": "header/Taskpost-Agent", "detail": fault}]
        raise InvalidRequest(f"The caller {header[:80]!r}: {fault}.", errors=errors)
    named = {sender, header, asked.get("as_")}
    named.update(item.get("sender") for item in sent.get("messages", ()))
    given = sorted(name for name in named if name is not None)
    if len(given) > 1:
        raise SenderMismatch(f"The request says that {given[0]} asks, and that {given[1]} does.")
    return given[0] if given else None


def checked_path(path: Mapping[str, str]) -> None:
    """Raise ``InvalidRequest`` for an agent's or service's name in a path that cannot be one.

    A task id that cannot be one is a task that is not there.
    """
    if not path.get("task_id", "").isprintable():
        raise TaskNotFound(f"There is no task {path['task_id'][:80]!r}.")
    name = path.get("agent")
    if name is not None and (fault := names.agent_fault(name)):
        errors = [{"pointer": "path/agent", "detail": fault}]
        raise InvalidRequest(f"The agent {name[:80]!r} in the path: {fault}.", errors=errors)
    service = path.get("service")
    if service is not None and (fault := names.service_fault(service)):
        errors = [{"pointer": "path/service", "detail": fault}]
        raise InvalidRequest(f"The service {service[:80]!r} in the path: {fault}.", errors=errors)
