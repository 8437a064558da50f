"""Loading what is right without ceremony.

Marshmallow's loader costs more than everything else that a send does. What a
``Quick`` loads has passed the same fields' own checks; what it does not load,
the schema itself is asked about, and says what is wrong with it.
"""

from typing import Any

from marshmallow import Schema, ValidationError, fields, missing


class Quick:
    """The short way through one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.fields: dict[str, tuple[str, Any, Quick | None]] = {}
        self.required: list[str] = []
        self.defaults: dict[str, Any] = {}
        for name, field in schema.load_fields.items():
            key = field.data_key or name
            self.fields[key] = (name, field, _inner(field))
            if field.required:
                self.required.append(name)
            elif field.load_default is not missing:
                self.defaults[name] = field.load_default

    def load(self, given: dict[str, Any]) -> dict[str, Any]:
        """What the schema loads from ``given``; raises marshmallow's ``ValidationError``."""
        try:
            return self._load(given)
        except (ValidationError, LookupError):
            return self.schema.load(given)

    def _load(self, given: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise LookupError("not an object")
        made = dict(self.defaults)
        for key, value in given.items():
            name, field, inner = self.fields[key]
            if value is None:
                raise LookupError(key)  # what null means is the schema's business
            if inner is not None:
                field.check(value)
                made[name] = [inner._load(item) for item in value]
                continue
            made[name] = found = field._deserialize(value, key, given)
            for validator in field.validators:
                validator(found)
        for name in self.required:
            made[name]
        return made


def _inner(field: Any) -> Quick | None:
    inner = getattr(field, "inner", None)
    return Quick(inner.schema) if isinstance(inner, fields.Nested) else None
