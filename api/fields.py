"""Fields of our schemas: strict about JSON's types, plain about what is wrong."""

import math
import re
from typing import Any

from marshmallow import ValidationError, fields, validate

from inbox import ids, names

YEARS = 10 * 366 * 24 * 3600  # the longest duration, in seconds
KEY_LENGTH = 255  # the longest idempotency key
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


class Text(fields.String):
    """A string, and nothing that could be made one."""

    def __init__(self, longest: int | None = None, **options: Any) -> None:
        validators = [validate.Length(max=longest)] if longest else []
        super().__init__(validate=validators, **options)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, str):
            raise ValidationError("is not a string")
        return self.read(value)

    def read(self, text: str) -> Any:
        """What a string stands for; raises ``ValidationError``."""
        return text


class Word(Text):
    """A string of printable characters."""

    def read(self, text: str) -> Any:
        """The string, if it is one of these."""
        if not text.isprintable():
            raise ValidationError("holds characters that cannot be printed")
        return text


class AgentName(Text):
    """The name of an agent."""

    def read(self, text: str) -> Any:
        """The string, if it is one of these."""
        if fault := names.agent_fault(text):
            raise ValidationError(fault)
        return text


class Flag(fields.Boolean):
    """True or false, and nothing that could be taken for it."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, bool):
            raise ValidationError("is not true or false")
        return value


class ServiceName(Text):
    """The name of a service."""

    def read(self, text: str) -> Any:
        """The string, if it is one of these."""
        if fault := names.service_fault(text):
            raise ValidationError(fault)
        return text


class TaskId(Text):
    """The id of a task."""

    def read(self, text: str) -> Any:
        """The string, if it is one of these."""
        if fault := names.task_fault(text):
            raise ValidationError(fault)
        return text


class MessageId(Text):
    """The id of a message, read as its seq."""

    def read(self, text: str) -> Any:
        """The seq of the message."""
        seq = ids.read(text)
        if seq is None:
            raise ValidationError("is not the id of a message")
        return seq


class Key(Text):
    """An idempotency key: 1 to 255 printable characters."""

    def read(self, text: str) -> Any:
        """The string, if it is one of these."""
        if not (1 <= len(text) <= KEY_LENGTH and text.isprintable()):
            raise ValidationError(f"is not 1 to {KEY_LENGTH} printable characters")
        return text


class Number(fields.Float):
    """A number of seconds or things, from JSON or from a query.

    ``cut`` is the value above which a larger one is cut to it; without it a
    larger one than ``most`` is an error.
    """

    def __init__(
        self, least: float, most: float, cut: bool = False, whole: bool = False, **options: Any
    ) -> None:
        self.least, self.most, self.cut, self.whole = least, most, cut, whole
        super().__init__(**options)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        number = self._number(value)
        if self.cut and number > self.most:
            number = self.most
        if not self.least <= number <= self.most or (self.whole and number != int(number)):
            kind = "a whole number" if self.whole else "a number"
            raise ValidationError(f"is not {kind} between {self.least:g} and {self.most:g}")
        return int(number) if self.whole else number

    def _number(self, value: Any) -> float:
        if isinstance(value, str) and self.parent.from_query and NUMBER.fullmatch(value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValidationError("is not a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValidationError("is not a number")
        return value


class Many(fields.List):
    """A list of at most ``most`` things; of a query, what is repeated."""

    def __init__(self, inner: fields.Field, most: int, least: int = 0, **options: Any) -> None:
        self.least, self.most = least, most
        super().__init__(inner, **options)

    def check(self, value: Any) -> None:
        """Raise ``ValidationError`` for what is not a list of the right length."""
        if not isinstance(value, list):
            raise ValidationError("is not a list")
        if not self.least <= len(value) <= self.most:
            raise ValidationError(f"has not {self.least} to {self.most} entries")

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        self.check(value)
        return super()._deserialize(value, attr, data, **kwargs)


class Content(fields.Field):
    """Any JSON value, handed through as the bytes received; left out is not the same as null."""
