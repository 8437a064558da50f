"""Reading a body that is right without ceremony.

Marshmallow's loader costs more than everything else that a send does. A
``Quick`` is made from a schema: msgspec reads the JSON and checks its types,
then each field's own checks follow. It gives what the schema would load; of
what it does not take, null for one thing, the schema itself has to be asked.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from marshmallow import Schema, ValidationError, fields, missing

from api.fields import Content, Flag, Many, Number

Check = Callable[[Any], Any]  # what a field makes of a value; raises ValidationError


class Quick:
    """The short way through one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.checks: list[tuple[str, Check | None]] = []
        required, optional = [], []
        for name, field in schema.load_fields.items():
            kind, check = _read(field)
            if field.required:
                required.append((name, kind))
                self.checks.insert(len(required) - 1, (name, check))
            else:
                default = None if field.load_default is missing else field.load_default
                optional.append((name, kind, default))
                self.checks.append((name, check))
        keys = {name: field.data_key or name for name, field in schema.load_fields.items()}
        self.kind = msgspec.defstruct(
            type(schema).__name__, [*required, *optional], rename=keys, forbid_unknown_fields=True
        )
        self.decoder = msgspec.json.Decoder(self.kind)

    def read(self, raw: bytes) -> dict[str, Any] | None:
        """What the schema would load from this JSON text; None if that has to be asked."""
        try:
            return self.taken(self.decoder.decode(raw))
        except (msgspec.MsgspecError, ValidationError, RecursionError):
            return None

    def taken(self, found: Any) -> dict[str, Any]:
        """The fields that are there, each as its check makes it."""
        made = {}
        for (name, check), value in zip(self.checks, msgspec.structs.astuple(found), strict=True):
            if value is not None:
                made[name] = value if check is None else check(value)
        return made


def _read(field: Any) -> tuple[Any, Check | None]:
    """The type of a field's values in JSON, and what else is asked of them."""
    if isinstance(field, Content):
        return msgspec.Raw, bytes
    if isinstance(field, Flag):
        return bool, None
    if isinstance(field, fields.Nested):
        quick = Quick(field.schema)
        return quick.kind, quick.taken
    if isinstance(field, Many):
        return _read_many(field)
    check = _checked(field)
    if isinstance(field, Number):
        return int | float, check
    assert isinstance(field, fields.String), f"no short way for {field}"
    return str, check


def _read_many(field: Many) -> tuple[Any, Check]:
    kind, check = _read(field.inner)

    def each(values: list[Any]) -> list[Any]:
        field.check(values)
        return values if check is None else [check(value) for value in values]

    return list[kind], each  # type: ignore[valid-type]


def _checked(field: Any) -> Check | None:
    read = getattr(field, "read", None) or (lambda value: field._deserialize(value, None, None))
    if not field.validators:
        return read

    def check(value: Any) -> Any:
        found = read(value)
        for validator in field.validators:
            validator(found)
        return found

    return check
